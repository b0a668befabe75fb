"""Our clients on servers of the real OpenEnv package, and its clients on ours."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from echo_env import CallToolAction, EchoEnv
from echo_env.server.echo_environment import EchoEnvironment
from openenv_gym import GenericEnvClient, MCPToolClient, errors
from tests.integration.openenv.running import (
    RELEASES,
    Running,
    launched,
    openenv_program,
    theirs,
)
from tests.openenv.test_articles import SNIPPETS, run
from tests.support.serving import serving


SCRIPT = Path(__file__).with_name("echo_server.py")

pytestmark = [pytest.mark.openenv, pytest.mark.timeout(300)]


@pytest.fixture(scope="module", params=RELEASES)
def release(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def url(release: str) -> Iterator[str]:
    with theirs(SCRIPT, release=release) as url:
        yield url


@pytest.mark.parametrize(("snippet", "printed"), SNIPPETS)
def test_a_snippet_of_the_articles(
    snippet: str,
    printed: list[str],
    url: str,
    release: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run(snippet, url)
    if release == "0.3":  # which keeps the greeting to itself
        printed = ["" if line == "Echo environment ready!" else line for line in printed]
    assert capsys.readouterr().out.splitlines() == printed


def test_tools(url: str, release: str) -> None:
    async def play() -> None:
        async with EchoEnv(base_url=url) as client:
            result = await client.reset(episode_id="mine")
            status = "ready" if release == "0.10" else None
            assert (result.reward, result.metadata.get("status")) == (0.0, status)
            names = [tool.name for tool in await client.list_tools()]
            assert names == ["echo_message", "echo_with_length", "dawdle", "fail"]
            said = await client.call_tool("echo_with_length", message="Hello")
            assert said == {"message": "Hello", "length": 5}
            with pytest.raises(errors.EnvironmentFailedError, match="out of luck"):
                await client.call_tool("fail")
            with pytest.raises(errors.OpenEnvGymError, match="fly"):
                await client.call_tool("fly")
            assert (await client.state()).episode_id == "mine"

    asyncio.run(play())


def test_dictionaries(url: str, release: str) -> None:
    with GenericEnvClient(base_url=url).sync() as client:
        noted = client.reset().observation.get("metadata", {})
        assert noted.get("message") == ("Echo environment ready!" if release == "0.10" else None)
        call = {"tool_name": "echo_message", "arguments": {"message": "Hi"}}
        assert client.step(call).observation["result"]["data"] == "Hi"
        with pytest.raises(errors.InvalidActionError, match="tool_name"):
            client.step({"arguments": {}})
        assert client.step(call).observation["tool_name"] == "echo_message"


async def has_begun(place: Path) -> None:
    """Wait until the tool `dawdle` runs."""
    while not (place / "begun").exists():
        await asyncio.sleep(0.02)


def test_time_limits_keep_replies_with_their_requests(url: str, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()

    def slow(place: Path) -> CallToolAction:
        return CallToolAction(tool_name="dawdle", arguments={"place": str(place)})

    async def play() -> None:
        async with MCPToolClient(base_url=url) as client:
            await client.reset()
            with pytest.raises(errors.DeadlineExceededError):
                await client.step(slow(first), timeout_s=0.1)
            (first / "enough").touch()
            task = asyncio.create_task(client.step(slow(second)))
            await has_begun(second)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            (second / "enough").touch()
            assert await client.call_tool("echo_message", message="in step") == "in step"

    asyncio.run(play())


async def begin(session: EchoEnv) -> None:
    """Reset a session, when those of earlier tests have left it a place."""
    while True:
        try:
            await session.reset()
            return
        except errors.CapacityError:
            await asyncio.sleep(0.05)


def test_sessions_up_to_the_capacity(url: str) -> None:
    async def play() -> None:
        async with EchoEnv(base_url=url) as client:
            await begin(client)
            others = [await client.new_session() for _ in range(3)]
            await asyncio.gather(*(begin(other) for other in others))
            one_more = await client.new_session()
            with pytest.raises(errors.CapacityError) as caught:
                await one_more.reset()
            assert caught.value.data["capacity"] == 4
            await others[0].close()
            assert await client.call_tool("echo_message", message="still here") == "still here"

    asyncio.run(play())


def test_a_message_of_17_mebibytes_ends_the_session_with_its_reason(url: str) -> None:
    with EchoEnv(base_url=url).sync() as client:
        client.reset()
        with pytest.raises(errors.FrameTooLargeError, match="too large for the server"):
            client.call_tool("echo_message", message="x" * (17 << 20))
        with pytest.raises(errors.SessionLostError):
            client.call_tool("echo_message", message="Hi")
        client.reset()
        assert client.call_tool("echo_message", message="Hi") == "Hi"


def test_a_server_that_dies_in_a_step(tmp_path: Path) -> None:
    async def play(server: Running) -> None:
        async with MCPToolClient(base_url=server.url) as client:
            await client.reset()
            call = asyncio.create_task(client.call_tool("dawdle", place=str(tmp_path)))
            await has_begun(tmp_path)
            server.process.kill()
            with pytest.raises(errors.ConnectionLostError):
                await asyncio.wait_for(call, 20)
            with pytest.raises(errors.ServerUnreachableError):
                await client.reset()

    with launched([openenv_program("python"), SCRIPT, "{port}"]) as server:
        asyncio.run(play(server))


def test_the_client_of_openenv_on_our_server() -> None:
    script = """
import sys
from openenv.core.mcp_client import MCPToolClient

with MCPToolClient(base_url=sys.argv[1]).sync() as client:
    print(client.reset().observation.echoed_message)
    print(sorted(tool.name for tool in client.list_tools()))
    print(client.call_tool("echo_message", message="Hello, World!"))
"""
    with serving(EchoEnvironment) as url:
        ended = subprocess.run(
            [openenv_program("python"), "-c", script, url],
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert ended.stdout.splitlines() == [
        "Echo environment ready!",
        "['echo_message', 'echo_with_length']",
        "Hello, World!",
    ], ended.stderr


def test_production_mode(url: str) -> None:
    with MCPToolClient(base_url=url, mode="production").sync() as client:
        assert client.has_tool("echo_message")
        assert client.call_tool("echo_message", message="Hi") == "Hi"
        with pytest.raises(errors.EnvironmentFailedError, match="out of luck"):
            client.call_tool("fail")
        assert client.call_tool("echo_with_length", message="Ho")["length"] == 2
