"""verl's own code for tools: configuration, `BaseTool`, and the calls of its agent loop.

What of verl needs GPUs and its engines is not run: `ToolAgentLoop.run` and the trainer.
"""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from openenv_gym import errors
from tests.agents.worlds import Line, Vault
from tests.support.serving import serving


pytestmark = [
    pytest.mark.llm,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("default"),  # those of other people's libraries
]


@pytest.fixture(scope="module")
def vault() -> Iterator[str]:
    with serving(Vault) as url:
        yield url


def tools_of(url: str, tmp_path: Path, **options: Any) -> dict[str, Any]:
    """Return the tools of an environment as verl itself makes them."""
    import yaml
    from verl.tools.tool_registry import initialize_tools_from_config

    from openenv_gym.verl import tool_config

    path = tmp_path / "tools.yaml"
    path.write_text(yaml.safe_dump(tool_config("openenv/Remote-v0", base_url=url, **options)))
    return {tool.name: tool for tool in initialize_tools_from_config(str(path))}


def agent(seed: int) -> Any:
    """Return what verl keeps of a trajectory."""
    from verl.experimental.agent_loop.tool_agent_loop import AgentData

    begun = {"create_kwargs": {"seed": seed}}
    names = ("observe", "guess", "look", "act")
    return AgentData([], [], [], None, None, {}, f"request-{seed}", dict.fromkeys(names, begun))


async def call(tools: dict[str, Any], data: Any, name: str, **arguments: Any) -> Any:
    """Call a tool as `ToolAgentLoop` does."""
    from verl.experimental.agent_loop.tool_agent_loop import ToolAgentLoop
    from verl.experimental.agent_loop.tool_parser import FunctionCall

    class Loop:
        max_tool_response_length = 1000
        tool_response_truncate_side = "left"

    loop: Any = Loop()
    loop.tools = tools
    said = FunctionCall(name=name, arguments=json.dumps(arguments))
    return await ToolAgentLoop._call_tool(loop, said, data.tools_kwargs, data)


def test_verl_makes_the_tools_of_a_configuration(vault: str, tmp_path: Path) -> None:
    from verl.tools.base_tool import BaseTool

    tools = tools_of(vault, tmp_path)
    assert list(tools) == ["observe", "guess", "look"]
    assert all(isinstance(tool, BaseTool) for tool in tools.values())
    schema = tools["guess"].tool_schema.model_dump(exclude_unset=True, exclude_none=True)
    assert schema["function"]["parameters"] == {
        "type": "object",
        "properties": {
            "digit": {"type": "integer", "description": "The digit."},
            "tone": {"type": "string", "enum": ["kind", "rude"], "description": "How it is said."},
        },
        "required": ["digit"],
    }


def test_a_trajectory_is_an_episode(vault: str, tmp_path: Path) -> None:
    tools = tools_of(vault, tmp_path)

    async def play() -> None:
        data, other = agent(3), agent(3)
        begun, reward, _ = await call(tools, data, "observe")
        assert (begun.text, reward) == (f"The vault hums {Vault.code_of(3) % 2}.", 0.0)
        wrong = (Vault.code_of(3) + 1) % 10
        shut, reward, metrics = await call(tools, data, "guess", digit=wrong, tone="rude")
        assert (shut.text, reward, metrics["done"], metrics["polite"]) == (
            "shut",
            -0.5,
            False,
            -1.0,
        )
        # Another member of the group begins alike, and goes its own way.
        assert (await call(tools, other, "observe"))[0].text == begun.text
        opened, reward, metrics = await call(tools, data, "guess", digit=Vault.code_of(3))
        assert (opened.text, reward, metrics["done"]) == ("open", 0.5, True)
        assert await tools["guess"].calc_reward("", agent_data=data) == 0.0
        after = await call(tools, data, "look")
        assert after[0].text == "The episode is over."
        assert (await call(tools, other, "look"))[0].text.startswith("{")
        refused, reward, metrics = await call(tools, other, "guess", digit="x")
        assert metrics["refused"]
        assert "digit" in refused.text

    asyncio.run(play())


def test_calls_at_once_share_the_episode(vault: str, tmp_path: Path) -> None:
    tools = tools_of(vault, tmp_path)

    async def play() -> Any:
        data = agent(4)
        calls = (call(tools, data, "look") for _ in range(6))
        came = await asyncio.gather(*calls, call(tools, data, "guess", digit=Vault.code_of(4)))
        return came, await tools["look"].calc_reward("", agent_data=data)

    came, earned = asyncio.run(play())
    assert [each[0].text for each in came][-1] in ("open", "The episode is over.")
    assert earned == sum(each[1] for each in came)


def test_sessions_are_used_again_when_their_trajectories_are_gone(
    vault: str, tmp_path: Path
) -> None:
    tools = tools_of(vault, tmp_path, max_turns=50)  # a pool of its own
    pool = tools["look"]._trajectories._pool

    async def play(seed: int) -> None:
        await call(tools, agent(seed), "look")

    for seed in range(4):
        asyncio.run(play(seed))
        gc.collect()
    assert len(pool._sessions) == 1


def test_an_instance_is_a_trajectory_where_verl_passes_no_other(vault: str, tmp_path: Path) -> None:
    tools = tools_of(vault, tmp_path)

    async def play() -> None:
        guess = tools["guess"]
        name, _ = await guess.create(create_kwargs={"seed": 5})
        await guess.execute(name, {"digit": (Vault.code_of(5) + 1) % 10, "tone": "rude"})
        opened, _, _ = await guess.execute(name, {"digit": Vault.code_of(5)})
        assert opened.text == "open"
        assert await guess.calc_reward(name) == 0.0
        await guess.release(name)
        assert await guess.calc_reward(name) == 0.0

    asyncio.run(play())


def test_failures_are_ends_where_that_is_declared(tmp_path: Path) -> None:
    with serving(Line) as url:
        raising = tools_of(url, tmp_path)
        ending = tools_of(url, tmp_path, on_failure="end", failure_reward=-4.0)

        async def play() -> None:
            # verl itself takes exceptions for the tool's words.
            told, reward, _ = await call(raising, agent(1), "act", by=-3)
            assert "the line broke" in told.text
            told, reward, metrics = await call(ending, agent(1), "act", by=-3)
            assert (told.text, reward, metrics["done"]) == (
                "The episode is over. Its environment failed.",
                -4.0,
                True,
            )

        asyncio.run(play())


def test_the_configuration_is_printed(vault: str) -> None:
    import yaml

    command = [sys.executable, "-m", "openenv_gym.verl", "openenv/Remote-v0"]
    done = subprocess.run(
        [*command, "--option", f"base_url={vault}", "--option", "timeout_s=30"],
        capture_output=True,
        text=True,
        timeout=200,
    )
    told = yaml.safe_load(done.stdout)
    assert [each["config"]["tool"] for each in told["tools"]] == ["observe", "guess", "look"]
    assert told["tools"][1]["config"]["timeout_s"] == 30


def test_a_tool_that_is_not_there_is_named(vault: str) -> None:
    from openenv_gym.verl import OpenEnvTool

    config = {"type": "native", "env_id": "openenv/Remote-v0", "base_url": vault, "tool": "fly"}
    with pytest.raises(errors.InvalidOptionError, match="no tool 'fly'"):
        OpenEnvTool(config)
