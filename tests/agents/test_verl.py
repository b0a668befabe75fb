"""What verl is given, with stand-ins for its few classes (tests/integration/llm has its own)."""

from __future__ import annotations

import asyncio
import gc
import sys
import types
from collections.abc import Iterator
from enum import Enum
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from openenv_gym.server import MCPEnvironment, ToolResultText, tool
from tests.support.serving import serving


class ToolSchema(BaseModel):
    type: str
    function: dict[str, Any]


class ToolResponse:
    def __init__(self, text: str | None = None) -> None:
        self.text = text


class BaseTool:
    def __init__(self, config: dict[str, Any], tool_schema: Any) -> None:
        self.tool_schema = tool_schema
        self.name = tool_schema.function["name"]


@pytest.fixture
def verl(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    base, schemas = types.ModuleType("verl.tools.base_tool"), types.ModuleType("verl.tools.schemas")
    base.BaseTool = BaseTool  # type: ignore[attr-defined]
    schemas.OpenAIFunctionToolSchema = ToolSchema  # type: ignore[attr-defined]
    schemas.ToolResponse = ToolResponse  # type: ignore[attr-defined]
    for name in ("verl", "verl.tools"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, base.__name__, base)
    monkeypatch.setitem(sys.modules, schemas.__name__, schemas)
    monkeypatch.delitem(sys.modules, "openenv_gym.verl", raising=False)
    import openenv_gym.verl as found

    yield found
    sys.modules.pop("openenv_gym.verl", None)


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Place(BaseModel):
    x: int
    next: Place | None = None


class Camp(MCPEnvironment):
    """A camp whose agent looks around by a tool of its own."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> ToolResultText:
        self.begin_episode(seed)
        return ToolResultText(text=f"Morning {seed}.")

    @tool
    def observe(self) -> str:
        """Look around."""
        return "A fox."

    @tool
    def paint(
        self,
        colour: Colour,
        again: Colour | None,
        way: Literal["up", 2] | None,
        place: Place,
        count: int | str,
        what: Any,
    ) -> str:
        """Paint.

        Args:
            colour: What with.
            again: What with then.
            way: Which way.
            place: Where.
            count: How often.
            what: Anything.
        """
        return f"{colour} {again}"


@pytest.fixture
def camp() -> Iterator[str]:
    with serving(Camp) as url:
        yield url


def tools_of(verl: Any, url: str) -> dict[str, Any]:
    config = verl.tool_config("openenv/Remote-v0", base_url=url)
    made = [verl.OpenEnvTool(each["config"]) for each in config["tools"]]
    assert len({each.name for each in made}) == len(made)
    return {each.name: each for each in made}


class Data:
    """A trajectory."""


def test_a_tool_of_the_environments_own_may_be_called_observe(verl: Any, camp: str) -> None:
    tools = tools_of(verl, camp)
    assert list(tools) == ["observe", "observe_tool", "paint"]

    async def play() -> list[str]:
        data = Data()
        told = [await tools[name].execute("", {}, agent_data=data) for name in list(tools)[:2] * 2]
        return [response.text for response, _, _ in told]

    assert asyncio.run(play()) == ["Morning None.", "A fox."] * 2


def test_the_model_is_told_which_values_an_argument_has(verl: Any, camp: str) -> None:
    tools = tools_of(verl, camp)
    parameters = tools["paint"].tool_schema.function["parameters"]
    assert parameters["properties"] == {
        "colour": {"type": "string", "description": "What with.", "enum": ["red", "blue"]},
        "again": {
            "type": ["string", "null"],
            "description": "What with then.",
            "enum": ["red", "blue", None],
        },
        "way": {
            "type": ["string", "integer", "null"],
            "description": "Which way.",
            "enum": ["up", 2, None],
        },
        "place": {"type": "object", "description": "Where."},
        "count": {"type": ["integer", "string"], "description": "How often."},
        "what": {
            "type": ["string", "integer", "number", "boolean", "null", "array", "object"],
            "description": "Anything.",
        },
    }


def test_a_trajectory_may_be_collected_while_another_one_begins(verl: Any, camp: str) -> None:
    tools = tools_of(verl, camp)
    trajectories = tools["paint"]._trajectories

    async def begin() -> None:
        data: Any = Data()
        data.itself = data  # so that only the collector finds it
        await tools["observe"].execute("", {}, agent_data=data)

    gc.disable()  # or it comes by itself
    try:
        asyncio.run(begin())
        assert len(trajectories._running) == 1
        with trajectories._lock:  # as while another one is being entered
            gc.collect()
        assert trajectories._running == {}
    finally:
        gc.enable()
