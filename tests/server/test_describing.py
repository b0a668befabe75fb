"""``describe_actions`` of all kinds of environments, by every client."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from pydantic import Field

from openenv_gym import GenericEnvClient, errors
from openenv_gym.models import Action, Observation, State
from openenv_gym.server import Environment
from openenv_gym.server.host import EnvironmentHost
from openenv_gym.spaces import describe_kind
from tests.support.serving import serving


class Drop(Action):
    """Drops a disc."""

    column: int = Field(ge=0, lt=4)


class Board(Observation):
    discs: int = Field(ge=0, le=8)


class Game(Environment[Drop, Board, State]):
    """A column that was played last is closed; `form` says how that is told."""

    action_model = Drop
    observation_model = Board

    def __init__(self, form: str = "mappings") -> None:
        self.form = form
        self.last: int | None = None

    def reset(self, *, seed: int | None = None, options: Any = None) -> Board:
        self.begin_episode(seed)
        self.last = None
        return self._see()

    def step(self, action: Drop) -> Board:
        self.count_step()
        self.last = action.column
        return self._see()

    def _see(self) -> Board:
        metadata = {}
        if self.form == "mask":
            metadata["action_mask"] = np.array([c != self.last for c in range(4)], np.int8)
        return Board(discs=0, metadata=metadata)

    def legal_actions(self) -> Any:
        columns = [column for column in range(4) if column != self.last]
        forms = {
            "mappings": [{"column": np.int64(column)} for column in columns],
            "models": [Drop(column=column) for column in columns],
            "wrong": columns,
        }
        return forms.get(self.form)


class Masked(gymnasium.Env[Any, Any]):
    """A Gymnasium environment; `where` says how it tells which actions are legal."""

    action_space = spaces.Discrete(3, start=1)
    observation_space = spaces.Discrete(2)

    def __init__(self, where: str) -> None:
        self.where = where
        self.mask = np.array([1, 0, 1], np.int8)
        if where == "attribute":
            self.action_mask = self.mask
        if where == "method":
            self.action_masks = lambda: self.mask

    def get_action_meanings(self) -> list[str]:
        return ["wait", "left", "right"]

    def _info(self) -> dict[str, Any]:
        return {"action_mask": self.mask} if self.where == "info" else {}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.mask[:] = [1, 0, 1]
        return 0, self._info()

    def step(self, action: Any) -> Any:
        self.mask[:] = [0, 0, 1]
        return 0, 0.0, False, False, self._info()


def describe(host: EnvironmentHost) -> dict[str, Any]:
    described, _ = host.execute("describe_actions", [])
    assert json.loads(json.dumps(described)) == described
    return described


@pytest.fixture
def url() -> Iterator[str]:
    with serving(Game) as address:
        yield address


@pytest.mark.parametrize("form", ["mappings", "models", "mask"])
def test_an_environment_tells_what_is_legal_now(form: str) -> None:
    host = EnvironmentHost(Game(form))
    described = describe(host)
    assert described == {"actions": [describe_kind(Drop)], "tools": [], "legal": None}
    host.execute("reset", [1, None])
    assert describe(host)["legal"] == [{"column": column} for column in range(4)]
    host.execute("step", [2])
    assert describe(host)["legal"] == [{"column": 0}, {"column": 1}, {"column": 3}]
    host.execute("step_typed", [{"column": 3}])
    assert describe(host)["legal"] == [{"column": 0}, {"column": 1}, {"column": 2}]
    host.execute("reset_typed", [{}])
    assert len(describe(host)["legal"]) == 4


def test_an_environment_that_says_nothing_takes_all() -> None:
    host = EnvironmentHost(Game("silent"))
    host.execute("reset", [1, None])
    assert describe(host)["legal"] is None


def test_a_hook_that_returns_no_actions_is_told_so() -> None:
    host = EnvironmentHost(Game("wrong"))
    host.execute("reset", [1, None])
    with pytest.raises(errors.ConfigurationError) as caught:
        host.execute("describe_actions", [])
    assert caught.value.field == "legal_actions"
    host.execute("step", [1])


@pytest.mark.parametrize("where", ["info", "attribute", "method", "nowhere"])
def test_a_gymnasium_environment(where: str) -> None:
    host = EnvironmentHost(Masked(where))
    described = describe(host)
    (kind,) = described["actions"]
    assert kind["fields"]["action"] == {
        "type": "Discrete",
        "low": 1,
        "high": 3,
        "labels": ["wait", "left", "right"],
        "required": True,
    }
    assert "Masked" in kind["description"]
    assert (described["tools"], described["legal"]) == ([], None)
    host.execute("reset", [1, None])
    first = describe(host)["legal"]
    host.execute("step", [1])
    second = describe(host)["legal"]
    if where == "nowhere":
        assert first is second is None
    else:
        assert (first, second) == ([{"action": 1}, {"action": 3}], [{"action": 3}])


@pytest.mark.parametrize(
    ("space", "field"),
    [
        (spaces.Box(-1, 2, (2,), np.float32), {"type": "Box", "low": -1.0, "high": 2.0}),
        (spaces.MultiDiscrete([2, 3]), {"type": "MultiDiscrete", "high": [1, 2]}),
        (spaces.Text(5, charset="ab"), {"type": "Text", "max_length": 5, "charset": "ab"}),
    ],
)
def test_other_spaces_of_gymnasium(space: Any, field: dict[str, Any]) -> None:
    env = Masked("attribute")
    env.action_space = space
    host = EnvironmentHost(env)
    host.execute("reset", [1, None])
    described = describe(host)
    assert field.items() <= described["actions"][0]["fields"]["action"].items()
    assert described["legal"] is None


def test_taxi_and_pong() -> None:
    for name, n, legal in (("Taxi-v4", 6, True), ("Pong-v5", 6, False)):
        with gymnasium.make(f"openenv/{name}", provider="thread") as env:
            env.reset(seed=1)
            described = env.unwrapped.openenv.describe_actions()
            (field,) = described["actions"][0]["fields"].values()
            assert (field["low"], field["high"]) == (0, n - 1)
            if legal:
                assert 0 < len(described["legal"]) < n
            else:
                assert described["legal"] is None
                assert field["labels"][:2] == ["NOOP", "FIRE"]


def test_an_environment_with_tools() -> None:
    with gymnasium.make("openenv/Echo-v0", provider="thread") as env:
        described = env.unwrapped.openenv.describe_actions()
    kinds = {kind["name"]: kind for kind in described["actions"]}
    assert list(kinds) == ["EchoAction", "CallToolAction"]
    assert kinds["EchoAction"]["fields"]["message"]["max_length"] == 4096
    assert "tool_name" in kinds["CallToolAction"]["schema"]["properties"]
    tools = {tool["name"]: tool for tool in described["tools"]}
    assert "message" in tools["echo_message"]["input_schema"]["properties"]


@pytest.mark.parametrize("protocol", ["binary", "json"])
def test_clients_of_openenvs_kind(url: str, protocol: Any) -> None:
    with GenericEnvClient(base_url=url, protocol=protocol) as client:
        described = client.describe_actions()
        assert described == {"actions": [describe_kind(Drop)], "tools": [], "legal": None}
        client.reset()
        client.step({"column": 1})
        if protocol == "binary":  # OpenEnv's JSON has no way to ask for it
            assert client.describe_actions()["legal"][0] == {"column": 0}


def test_a_mask_in_the_metadata_is_enough_for_json() -> None:
    with (
        serving(lambda: Game("mask")) as url,
        GenericEnvClient(base_url=url, protocol="json") as client,
    ):
        client.reset()
        client.step({"column": 1})
        assert client.describe_actions()["legal"] == [{"column": 0}, {"column": 2}, {"column": 3}]


def test_the_schema_page_tells_kinds_and_tools(url: str) -> None:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)
    connection.request("GET", "/schema")
    page = json.loads(connection.getresponse().read())
    connection.close()
    assert page["actions"] == {"actions": [describe_kind(Drop)], "tools": []}
