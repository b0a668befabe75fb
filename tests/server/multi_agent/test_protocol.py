"""Multi-agent sessions as the wire has them (docs/protocol.md, section 4.8)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from openenv_gym.spaces import space_from_data
from tests.multi_agent.worlds import Cards, Sums, generated_parallel
from tests.server.conftest import RawClient, Site


class Wire:
    """A session, spoken to by hand."""

    def __init__(self, client: RawClient, many: Any, **options: Any) -> None:
        self.client = client
        self._id = 0
        client.send(0, {"version": [1, 0], "open": {"options": options, "multi_agent": many}})
        self.welcome = client.receive()

    @property
    def environment(self) -> Any:
        return self.welcome[1]["environment"]

    def __call__(self, op: str, *args: Any) -> Any:
        self._id += 1
        self.client.send(1, self._id, self._id - 1, op, list(args))
        self.reply = self.client.receive()
        assert self.reply[1] == self._id
        return self.reply[2]


def test_an_environment_in_turn(site: Site) -> None:
    site.start(Cards)
    wire = Wire(site.client(), {"api": "aec"}, hand_size=4)
    environment = wire.environment
    assert environment["name"] == "cards"
    assert environment["action_space"] == environment["observation_space"] == {}
    assert environment["rng"] is environment["time_limit"] is None
    many = environment["multi_agent"]
    assert (many["api"], many["state_space"]) == ("aec", None)
    assert many["possible_agents"] == list(many["spaces"]) == ["player_0", "player_1"]
    observation_space, action_space = map(space_from_data, many["spaces"]["player_1"])
    assert action_space.n == 10
    turn = wire("reset", 3, None)
    agents, selected, observation, rewards, cumulative, terminations, truncations, infos = turn
    assert (agents, selected) == (["player_0", "player_1"], "player_0")
    assert observation in observation_space
    assert rewards == cumulative == {"player_0": 0.0, "player_1": 0.0}
    assert terminations == truncations == {"player_0": False, "player_1": False}
    assert infos["player_0"] == {"hand": observation["hand"]}
    assert wire("look", "player_1")["hand"] == infos["player_1"]["hand"]
    turn = wire("step", 9)
    assert turn[1] == "player_1" and turn[4] == {"player_0": 1.0, "player_1": -1.0}
    wire("step", None)
    turn = wire("step", None)
    assert turn[0] == [] and turn[2] is None and turn[3:] == [{}] * 5
    assert wire("step", None)["code"] == "reset_needed"
    assert wire("get", "hand_size") == [0, 4]
    assert wire("call", "observe", ["player_0"], {})["said"] == 9
    assert isinstance(wire("state"), np.ndarray)


def test_a_parallel_environment(site: Site) -> None:
    site.start(Sums)
    wire = Wire(site.client(), {"api": "parallel"}, players=2, length=1)
    assert space_from_data(wire.environment["multi_agent"]["state_space"]).shape == (2,)
    agents, observations, infos = wire("reset", None, {"a": 1})
    assert agents == list(observations) == ["player_0", "player_1"]
    assert infos == {key: {"options": {"a": 1}} for key in agents}
    outcome = wire("step", {"player_0": 4, "player_1": 0})
    assert outcome[0] == []
    assert outcome[2:5] == [
        {"player_0": 4.0, "player_1": 0.0},
        {"player_0": False, "player_1": True},
        {"player_0": True, "player_1": True},
    ]


def test_several_parallel_environments(site: Site) -> None:
    site.start(Sums)
    wire = Wire(site.client(), {"api": "parallel", "num_envs": 3}, players=2)
    assert wire.environment["multi_agent"]["num_envs"] == 3
    alive, observations, infos = wire("reset", [1, 2, None], None)
    assert alive["player_0"].tolist() == [True] * 3
    assert observations["player_1"].shape == (3, 2)
    assert set(infos) == {0, 1, 2}
    actions = {"player_0": np.array([1, 0, 2]), "player_1": np.array([3, 3, 3])}
    alive, _, rewards, terminations, _, _ = wire("step", actions)
    assert alive["player_0"].tolist() == [True, False, True]
    assert rewards["player_0"].tolist() == [1.0, 0.0, 2.0]
    assert terminations["player_0"].tolist() == [False, True, False]


def test_spaces_of_agents_that_come_later(site: Site) -> None:
    site.start(generated_parallel)
    wire = Wire(site.client(), {"api": "parallel"})
    many = wire.environment["multi_agent"]
    assert many["possible_agents"] is None and many["spaces"] == {}
    agents, observations, _ = wire("reset", 1, None)
    told = wire.reply[4]["spaces"]
    assert list(told) == agents
    for _ in range(30):
        spaces = {agent: space_from_data(told[agent][1]) for agent in agents}
        agents, observations, *_ = wire("step", {a: spaces[a].sample() for a in agents})
        extras = wire.reply[4] if len(wire.reply) > 4 else {}
        assert not set(extras.get("spaces", ())) & set(told)
        told.update(extras.get("spaces", {}))
        assert set(observations) <= set(told)
    assert len(told) > 3


@pytest.mark.parametrize(
    ("many", "code", "field"),
    [
        (5, "protocol_error", "multi_agent"),
        ({}, "invalid_option", "api"),
        ({"api": "both"}, "invalid_option", "api"),
        ({"api": ["aec"]}, "invalid_option", "api"),
        ({"api": "aec", "num_envs": 2}, "protocol_error", "num_envs"),
        ({"api": "parallel", "num_envs": 0}, "invalid_option", "num_envs"),
        ({"api": "parallel", "num_envs": "2"}, "protocol_error", "num_envs"),
        ({"api": "parallel", "num_envs": 1 << 40}, "invalid_option", "num_envs"),
        ({"api": "seat", "agent": "a", "ticket": "t" * 16}, "invalid_option", "game"),
        ({"api": "seat", "game": "g", "ticket": "t" * 16}, "protocol_error", "agent"),
        (
            {"api": "seat", "game": "g", "ticket": "t" * 16, "agent": ["a"]},
            "protocol_error",
            "agent",
        ),
        ({"api": "seat", "game": "g", "agent": "a", "ticket": "t"}, "invalid_option", "ticket"),
        (
            {"api": "seat", "game": "g", "agent": "a", "ticket": "t" * 16, "turn_s": -1},
            "invalid_option",
            "turn_s",
        ),
    ],
    ids=str,
)
def test_wrong_openings(site: Site, many: Any, code: str, field: str) -> None:
    site.start(Sums)
    wire = Wire(site.client(), many)
    assert wire.welcome[0] == 18
    assert (wire.welcome[2]["code"], wire.welcome[2]["field"]) == (code, field)


@pytest.mark.parametrize("api", ["aec", "parallel"])
@pytest.mark.parametrize(
    ("op", "args"),
    [
        ("reset", ["seven", None]),
        ("reset", [True, None]),
        ("reset", [1, 2]),
        ("reset", [1, None, None]),
        ("call", ["observe", 1, {}]),
        ("get", ["__class__"]),
        ("nothing", []),
        ("save_state", []),
    ],
)
def test_wrong_requests(site: Site, api: str, op: str, args: list[Any]) -> None:
    site.start(Sums)
    wire = Wire(site.client(), {"api": api})
    wire("reset", 1, None)
    assert wire(op, *args)["code"] == "protocol_error"
    wire("reset", 1, None)  # and it goes on
    assert wire.reply[0] == 17


@pytest.mark.parametrize("actions", [5, None, [1, 2]])
def test_actions_that_are_no_map(site: Site, actions: Any) -> None:
    site.start(Sums)
    for many in ({"api": "parallel"}, {"api": "parallel", "num_envs": 2}):
        wire = Wire(site.client(), many)
        wire("reset", None, None)
        assert wire("step", actions)["code"] == "protocol_error"


def test_an_environment_that_fails_among_several(site: Site) -> None:
    site.start(Sums)
    wire = Wire(site.client(), {"api": "parallel", "num_envs": 2}, players=1)
    wire("reset", None, None)
    failed = wire("step", {"player_0": np.array([1])})
    assert failed["code"] == "invalid_action"
    assert wire("step", {"player_0": np.array([1, 2])})[2]["player_0"].tolist() == [1.0, 2.0]


def test_a_broken_connection_loses_no_turn(site: Site) -> None:
    site.start(Cards)
    wire = Wire(site.client(), {"api": "aec"})
    wire("reset", 1, None)
    body = wire.welcome[1]
    wire.client.send(1, 2, 1, "step", [1])
    wire.client.close()
    again = site.client()
    resume = {"session": body["session"], "token": body["token"], "epoch": 2, "ack": 1}
    again.send(0, {"version": [1, 0], "resume": resume})
    welcome = again.receive()
    if welcome[1]["received"] < 2:  # the step was lost on its way
        again.send(1, 2, 1, "step", [1])
    assert again.receive()[2][1] == "player_1"
