"""The random generator of an environment that is elsewhere."""

from __future__ import annotations

import threading
from typing import Any

import gymnasium
import numpy as np
import pytest

from openenv_gym import errors
from openenv_gym.server.host import EnvironmentHost
from tests.support.waiting import impatient
from tests.support.worlds import CountingEnv, ThingsEnv


def hosted(name: str, **kwargs: Any) -> gymnasium.Env[Any, Any]:
    return gymnasium.make(f"openenv/{name}", provider="thread", **kwargs)


# -- random generator -------------------------------------------------------------------------


def test_draws_on_the_client_count_on_the_server() -> None:
    local, remote = gymnasium.make("FrozenLake-v1"), hosted("FrozenLake-v1")
    for env in (local, remote):
        env.reset(seed=9)
        assert env.unwrapped.np_random_seed == 9
    for _ in range(100):
        assert local.unwrapped.np_random.integers(1000) == remote.unwrapped.np_random.integers(1000)
        here, there = local.step(2), remote.step(2)
        assert here[:4] == there[:4]
        if here[2] or here[3]:
            local.reset()
            remote.reset()
    local.close()
    remote.close()


def test_the_generator_stays_the_same_object() -> None:
    env = hosted("FrozenLake-v1")
    env.reset(seed=1)
    generator = env.unwrapped.np_random
    before = generator.bit_generator.state
    env.step(0)
    assert env.unwrapped.np_random is generator
    assert generator.bit_generator.state != before
    env.close()


def test_a_generator_that_is_replaced_is_used_by_the_environment() -> None:
    local, remote = gymnasium.make("FrozenLake-v1"), hosted("FrozenLake-v1")
    for env in (local, remote):
        env.reset(seed=1)
        env.unwrapped.np_random = np.random.Generator(np.random.MT19937(5))
    for _ in range(20):
        here, there = local.step(1), remote.step(1)
        assert here[0] == there[0]
        if here[2] or here[3]:
            assert local.reset()[0] == remote.reset()[0]
    local_state = local.unwrapped.np_random.bit_generator.state
    remote_state = remote.unwrapped.np_random.bit_generator.state
    assert (local_state["state"]["key"] == remote_state["state"]["key"]).all()
    assert local_state["state"]["pos"] == remote_state["state"]["pos"]
    local.close()
    remote.close()


def test_a_replaced_generator_loses_its_seed_and_a_private_one_keeps_it() -> None:
    local, remote = gymnasium.make("FrozenLake-v1"), hosted("FrozenLake-v1")
    for env in (local, remote):
        env.reset(seed=1)
        env.unwrapped.np_random = np.random.default_rng(5)
        env.step(1)
        assert env.unwrapped.np_random_seed == -1
        env.unwrapped._np_random_seed = 8
        env.step(1)
        assert env.unwrapped.np_random_seed == 8
        env.unwrapped._np_random = np.random.default_rng(6)
        env.step(1)
        assert env.unwrapped.np_random_seed == 8
    remote.unwrapped.np_random.random()
    assert remote.unwrapped.openenv.request("get", ["np_random_seed"]) == [0, 8]
    local.close()
    remote.close()


def test_a_draw_is_not_lost_with_a_request_that_cannot_be_sent(remote: Any) -> None:
    env = remote(ThingsEnv)
    env.reset(seed=1)
    expected = np.random.default_rng(1)
    assert env.np_random.random() == expected.random()
    with pytest.raises(errors.InvalidActionError):
        env.step(object())
    assert env.step(0)[1] == expected.random()
    assert env.np_random.random() == expected.random()


def test_a_step_that_draws_and_then_raises_moves_the_mirror_too(remote: Any) -> None:
    env = remote(ThingsEnv)
    env.reset(seed=1)
    expected = np.random.default_rng(1)
    with pytest.raises(ValueError, match="after a draw"):
        env.step(1)
    expected.random()
    assert env.np_random.random() == expected.random()
    assert env.step(0)[1] == expected.random()


def test_a_step_that_nobody_waited_for_moves_the_mirror_too(remote: Any) -> None:
    gate = threading.Event()

    class Slow(ThingsEnv):
        def step(self, action: Any) -> Any:
            gate.wait(60)
            return super().step(action)

    env = remote(Slow)
    env.reset(seed=1)
    expected = np.random.default_rng(1)
    with impatient(env.openenv.connection), pytest.raises(TimeoutError):
        env.step(0)
    expected.random()
    gate.set()
    assert env.unwrapped.count == 1
    assert env.np_random.random() == expected.random()


@pytest.mark.parametrize(
    "state",
    [
        {"bit_generator": "seed"},
        {"bit_generator": "Generator"},
        {"bit_generator": "PCG64", "state": 5},
        {"bit_generator": 5},
        5,
        {**np.random.MT19937(1).state, "state": {"key": np.zeros(624, np.uint32), "pos": 10**6}},
        {**np.random.MT19937(1).state, "state": {"key": np.zeros(624, np.uint32), "pos": -9}},
        {**np.random.Philox(1).state, "buffer_pos": -1000},
    ],
)
def test_a_state_from_the_wire_can_only_be_a_state(state: Any) -> None:
    host = EnvironmentHost(CountingEnv())
    host.execute("reset", [3, None])
    before = host.env.np_random.bit_generator.state
    np.random.seed(4)
    for rng in ({"seed": 1, "state": state}, {"seed": "x", "state": before}, state):
        with pytest.raises(errors.ProtocolError) as caught:
            host.execute("ping", [], rng)
        assert caught.value.field == "rng"
    assert np.random.random() == np.random.RandomState(4).random()
    assert host.env.np_random.bit_generator.state == before
    assert host.env.np_random_seed == 3


@pytest.mark.parametrize("kind", ["MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64"])
def test_every_generator_of_numpy_can_be_used(remote: Any, kind: str) -> None:
    env = remote(ThingsEnv)
    env.reset(seed=1)
    env.np_random = np.random.Generator(getattr(np.random, kind)(7))
    expected = np.random.Generator(getattr(np.random, kind)(7))
    for _ in range(5):
        assert env.step(0)[1] == expected.random()
        assert env.np_random.random() == expected.random()
