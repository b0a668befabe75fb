"""Opening vector sessions, and what they have in common with all others."""

from __future__ import annotations

import threading
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from openenv_gym import errors
from openenv_gym.protocol.limits import Limits
from openenv_gym.server.vector.options import DEFAULT_MAX_ENVS
from openenv_gym.spaces import space_from_data
from tests.server.conftest import Site
from tests.server.vector.conftest import CountEnv, Wire, drive
from tests.support.waiting import eventually
from tests.support.worlds import BlockingEnv


def test_what_is_described(site: Site) -> None:
    site.start(CountEnv)
    ours = Wire(site.client(), num_envs=3, options={"render_mode": "rgb_array"})
    described = ours.welcome[1]["environment"]
    assert described["vector"] == {
        "num_envs": 3,
        "autoreset_mode": "NextStep",
        "engine": "loop",
        "max_episode_steps": None,
    }
    assert space_from_data(described["action_space"]) == spaces.Discrete(10)
    assert space_from_data(described["observation_space"]).shape == (2,)
    assert described["render_mode"] == "rgb_array" and described["rng"] is None
    assert described["name"] == "CountEnv" and described["package"] == "CountEnv"
    assert described["metadata"]["render_fps"] == 10
    ours("reset", [1, 2, 3])
    assert ours.reply[0] == 17 and len(ours.reply) == 4  # no extras: nothing is mirrored
    assert ours("render")[2].shape == (2, 2, 3)
    assert ours("close") is None
    with pytest.raises(OSError):
        ours.client.receive()


@pytest.mark.parametrize(
    ("vector", "code", "field"),
    [
        (None, "protocol_error", "vector"),
        ([4], "protocol_error", "vector"),
        ({}, "protocol_error", "num_envs"),
        ({"num_envs": "4"}, "protocol_error", "num_envs"),
        ({"num_envs": True}, "protocol_error", "num_envs"),
        ({"num_envs": 0}, "invalid_option", "num_envs"),
        ({"num_envs": -1}, "invalid_option", "num_envs"),
        ({"num_envs": DEFAULT_MAX_ENVS + 1}, "invalid_option", "num_envs"),
        ({"num_envs": 1, "first": -1}, "invalid_option", "first"),
        ({"num_envs": 1, "first": 0.5}, "protocol_error", "first"),
        ({"num_envs": 1, "autoreset_mode": "Never"}, "invalid_option", "autoreset_mode"),
        ({"num_envs": 1, "autoreset_mode": 1}, "protocol_error", "autoreset_mode"),
        ({"num_envs": 1, "max_episode_steps": 0}, "invalid_option", "max_episode_steps"),
        ({"num_envs": 1, "max_episode_steps": 1.5}, "protocol_error", "max_episode_steps"),
        ({"num_envs": 1, "engine": "warp"}, "invalid_option", "engine"),
        ({"num_envs": 1, "engine": "native"}, "invalid_option", "engine"),
        ({"num_envs": 1, "observation_mode": "odd"}, "invalid_option", "observation_mode"),
    ],
)
def test_what_is_refused(site: Site, vector: Any, code: str, field: str) -> None:
    site.start(CountEnv)
    client = site.client()
    client.send(0, {"version": [1, 0], "open": {"options": {}, "vector": vector}})
    kind, id_, error = client.receive()
    assert (kind, id_, error["code"], error["field"]) == (18, None, code, field)
    assert field in error["message"]


def test_options_are_those_of_a_single_one(site: Site) -> None:
    site.start(CountEnv)
    error = Wire(site.client(), num_envs=2, options={"lenght": 3}).welcome[2]
    assert (error["code"], error["field"]) == ("invalid_option", "lenght")
    assert "'length'" in error["hint"]


class NumberedEnv(gymnasium.Env[Any, Any]):
    """Each that is made has spaces of its own, and can fail to be made."""

    made = 0
    closed = 0

    def __init__(
        self, actions: int = 0, bounds: int = 0, shapes: int = 0, fails_at: int = -1
    ) -> None:
        number = NumberedEnv.made
        if number == fails_at:
            raise RuntimeError("no more of them")
        NumberedEnv.made += 1
        self.action_space = spaces.Discrete(2 + number * actions)
        self.observation_space = spaces.Box(0, 1 + number * bounds, (1 + number * shapes,))

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return self.observation_space.high, {}

    def close(self) -> None:
        NumberedEnv.closed += 1


@pytest.fixture
def numbered() -> type[NumberedEnv]:
    NumberedEnv.made = NumberedEnv.closed = 0
    return NumberedEnv


def test_spaces_that_differ(numbered: type[NumberedEnv]) -> None:
    ours = drive(numbered, 3, options={"bounds": 1}, different_spaces=True)
    described = ours.host.describe()
    each = [space_from_data(space) for space in described["vector"]["observation_spaces"]]
    assert each == [spaces.Box(0, 1 + i, (1,)) for i in range(3)]
    assert space_from_data(described["observation_space"]) == each[0]
    assert ours("reset", None)[0].tolist() == [[1], [2], [3]]
    ours.close()
    assert numbered.closed == 3


@pytest.mark.parametrize(
    ("options", "different", "message"),
    [
        ({"bounds": 1}, False, "'same', however the sub-environments' observation spaces are not"),
        ({"shapes": 1}, False, "not equivalent"),
        ({"shapes": 1}, True, "do not share a common shape and dtype"),
        ({"actions": 1}, False, "action spaces are not equivalent"),
    ],
)
def test_spaces_that_differ_too_much(
    numbered: type[NumberedEnv], options: Any, different: bool, message: str
) -> None:
    with pytest.raises(errors.InvalidOptionError, match=message):
        drive(numbered, 3, options=options, different_spaces=different)
    assert numbered.closed == numbered.made == 3


def test_what_was_made_before_a_failure_is_closed(numbered: type[NumberedEnv]) -> None:
    with pytest.raises(RuntimeError, match="no more"):
        drive(numbered, 5, options={"fails_at": 3})
    assert (numbered.made, numbered.closed) == (3, 3)


def test_a_session_takes_one_place(site: Site) -> None:
    server = site.start(CountEnv, capacity=2)
    first, second = (Wire(site.client(), num_envs=50) for _ in range(2))
    assert first.welcome[0] == second.welcome[0] == 16
    full = Wire(site.client(), num_envs=1).welcome[2]
    assert full["code"] == "at_capacity"
    waiting = site.client()
    opening = {"options": {}, "wait_s": 60.0, "vector": {"num_envs": 2}}
    waiting.send(0, {"version": [1, 0], "open": opening})
    assert eventually(lambda: bool(server.sessions._waiting))
    first("close")
    assert waiting.receive()[1]["environment"]["vector"]["num_envs"] == 2


def test_the_bound_is_the_servers(site: Site) -> None:
    site.start(CountEnv, max_envs=3)
    error = Wire(site.client(), num_envs=4).welcome[2]
    assert (error["code"], error["field"]) == ("invalid_option", "num_envs")
    assert "num_envs=4" in error["message"] and "at most 3" in error["message"]
    assert "num_servers=" in error["hint"] and "--max-envs" in error["hint"]
    assert error["data"] == {"num_envs": 4, "max_envs": 3}
    assert Wire(site.client(), num_envs=3)("reset", None)[0].shape == (3, 2)


def test_resume(site: Site) -> None:
    site.start(CountEnv)
    ours = Wire(site.client(), num_envs=2)
    ours("reset", [1, 2])
    ours.client.send(1, 2, 0, "step", [np.array([1, 2])])
    ours.client.close()
    again = site.client()
    body = ours.welcome[1]
    resume = {"session": body["session"], "token": body["token"], "epoch": 2, "ack": 0}
    again.send(0, {"version": [1, 0], "resume": resume})
    received = again.receive()[1]["received"]
    assert again.receive()[2][0].tolist() == [[1, 0], [1, 0]]
    if received < 2:
        again.send(1, 2, 0, "step", [np.array([1, 2])])
    assert again.receive()[2][0].tolist() == [[1, 1], [1, 1]]
    again.send(1, 3, 2, "step", [np.array([1, 2])])
    assert again.receive()[2][0].tolist() == [[1, 2], [1, 2]]


def test_idle_sessions_end(site: Site) -> None:
    server = site.start(CountEnv, limits=Limits(idle_timeout_s=0.1, resume_grace_s=0.1))
    Wire(site.client(), num_envs=2)
    assert eventually(lambda: len(server.sessions) == 0)


def test_drain(site: Site) -> None:
    server = site.start(CountEnv)
    ours = Wire(site.client(), num_envs=2)
    ours("reset", None)
    drained: list[bool] = []
    thread = threading.Thread(target=lambda: drained.append(server.drain(60.0)))
    thread.start()
    assert ours.client.receive()[0] == 19
    assert ours("step", np.array([1, 1]))[0].shape == (2, 2)
    assert Wire(site.client(), num_envs=2).welcome[2]["code"] == "draining"
    ours("close")
    thread.join()
    assert drained == [True]


def test_pipelined_requests(site: Site) -> None:
    site.start(CountEnv)
    ours = Wire(site.client(), num_envs=2, options={"length": 100})
    ours("reset", None)
    for id_ in range(2, 40):
        ours.client.send(1, id_, 1, "step", [np.array([1, 2])])
    replies = [ours.client.receive() for _ in range(38)]
    assert [reply[2][0][:, 1].tolist() for reply in replies] == [[i, i] for i in range(1, 39)]


def test_a_server_stops_while_steps_run(site: Site, blocking: type[BlockingEnv]) -> None:
    server = site.start(blocking)
    ours = Wire(site.client(), num_envs=3)
    ours("reset", None)
    ours("send", np.arange(3), np.array([1, 1, 1]))
    site._servers.clear()
    server.stop(600.0)  # which does not wait for them: nothing opens the gate before
