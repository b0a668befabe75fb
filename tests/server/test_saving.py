"""Saved states, and the checks of options that environments share."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import Field

from openenv_gym import errors
from openenv_gym.models import Action, Observation
from openenv_gym.protocol.codec import decode_packet, encode_packet
from openenv_gym.server import (
    Environment,
    SavedState,
    check_choice,
    check_integer,
    check_number,
    merge_numbers,
)
from openenv_gym.server.host import EnvironmentHost


class Go(Action):
    steps: int = Field(ge=0, le=9)


class Place(Observation):
    place: int = Field(ge=0, le=1000)


class SavedWalk(SavedState):
    place: int = Field(ge=0, le=1000)


class Walk(Environment):
    action_model = Go
    observation_model = Place
    place = 0

    def reset(self, *, seed=None, options=None):
        self.begin_episode(seed)
        self.place = int(self.np_random.integers(10))
        return Place(place=self.place)

    def step(self, action):
        self.count_step()
        self.place += action.steps
        return Place(place=self.place, reward=0.0)

    def save_state(self):
        return SavedWalk.of(self, {"length": 1000}, place=self.place)

    def restore_state(self, saved):
        state = SavedWalk.read(saved, {"length": 1000})
        self.place = state.place
        state.apply(self)


@pytest.fixture
def host():
    host = EnvironmentHost(Walk())
    host.execute("reset", [7])
    yield host
    host.close()


@pytest.mark.parametrize("kind", ["PCG64", "MT19937", "Philox"])
def test_a_state_comes_back_after_the_wire(host, kind):
    host.env.np_random = np.random.Generator(getattr(np.random, kind)(5))
    host.execute("step", [3])
    parts = encode_packet([host.execute("save_state", [])[0]])
    (saved,) = decode_packet(memoryview(bytearray(b"".join(parts))))
    drawn, state = host.env.np_random.random(), host.execute("state", [])[0]
    host.execute("reset", [8])
    host.execute("restore_state", [saved])
    assert host.execute("state", [])[0] == state
    assert host.env.np_random.random() == drawn


def test_a_generator_that_was_never_used_is_none():
    environment = Walk()
    saved = environment.save_state()
    assert (saved["np_random"], saved["np_random_seed"]) == (None, None)
    environment.reset(seed=1)
    environment.restore_state(saved)
    assert environment._np_random is None


@pytest.mark.parametrize(
    "wrong", [None, 3, [], [1], [1, {}, 2], [-1, {}], [True, {}], ["1", {}], [2**63, {}], {1: 2}]
)
def test_what_the_server_did_not_save_is_refused(host, wrong):
    state = host.execute("state", [])[0]
    with pytest.raises(errors.ProtocolError, match="save_state") as caught:
        host.execute("restore_state", [wrong])
    assert caught.value.field == "saved"
    assert host.execute("state", [])[0] == state


def test_a_refused_state_changes_nothing(host):
    before = host.execute("save_state", [])[0]
    for damage in ({"place": 1001}, {"options": "{}"}, {"np_random": {"bit_generator": []}}):
        with pytest.raises(errors.InvalidOptionError, match="not a saved state"):
            host.execute("restore_state", [[4, {**before[1], **damage}]])
        assert host.execute("save_state", [])[0] == before


@pytest.mark.parametrize("value", [1, 1.5, "c", True, [], np.ones(2), ["a"]], ids=repr)
def test_a_wrong_choice(value):
    with pytest.raises(errors.InvalidOptionError, match="'a' or 'b' or None") as caught:
        check_choice("way", value, ("a", "b", None))
    assert caught.value.field == "way"
    check_choice("way", None, ("a", "b", None))


@pytest.mark.parametrize("value", [0, 11, 1.0, True, "3", None, np.int64(3)], ids=repr)
def test_a_wrong_integer(value):
    with pytest.raises(errors.InvalidOptionError, match="an integer from 1 to 10") as caught:
        check_integer("count", value, 1, 10)
    assert caught.value.field == "count"
    check_integer("count", 3, 1, 10)
    check_integer("count", None, 1, optional=True)


@pytest.mark.parametrize(
    "value", [True, "1", None, float("nan"), float("inf"), 2e9, [1.0]], ids=repr
)
def test_a_wrong_number(value):
    with pytest.raises(errors.InvalidOptionError, match="a number from") as caught:
        check_number("weight", value)
    assert caught.value.field == "weight"
    check_number("weight", -2)
    check_number("weight", None, optional=True)


@pytest.mark.parametrize("value", [3, ["a"], {"c": 1.0}, {"a": "1"}, {"a": True}, {1: 1}], ids=repr)
def test_wrong_numbers_by_name(value):
    with pytest.raises(errors.InvalidOptionError) as caught:
        merge_numbers("weights", value, {"a": 1.0, "b": 2.0})
    assert caught.value.field == "weights"
    assert merge_numbers("weights", {"b": 3}, {"a": 1.0, "b": 2.0}) == {"a": 1.0, "b": 3}
    assert merge_numbers("weights", None, {"a": 1.0}) == {"a": 1.0}
