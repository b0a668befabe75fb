"""What articles about OpenEnv show of its echo environment runs as it stands, but for the URL."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from echo_env.server.echo_environment import EchoEnvironment
from tests.openenv.test_mcp_client import openenv_echo
from tests.support.fake_openenv import FakeOpenEnv
from tests.support.serving import serving


URL = "https://openenv-echo-env.hf.space"

ASYNCHRONOUS = """
import asyncio
from echo_env import CallToolAction, EchoEnv

async def main():
    async with EchoEnv(base_url="https://openenv-echo-env.hf.space") as client:
        result = await client.reset()
        print(result.observation.echoed_message)

        result = await client.step(
            CallToolAction(
                tool_name="echo_message",
                arguments={"message": "Hello, World!"},
            )
        )
        print(result.observation.result)
        print(result.reward)

asyncio.run(main())
"""

BLOCKING = """
from echo_env import CallToolAction, EchoEnv

with EchoEnv(base_url="https://openenv-echo-env.hf.space").sync() as client:
    result = client.reset()
    result = client.step(
        CallToolAction(
            tool_name="echo_message",
            arguments={"message": "Hello, World!"},
        )
    )
    print(result.observation.result)
"""

ASYNCHRONOUS_2 = """
import asyncio
from echo_env import EchoEnv, CallToolAction

async def main():
    async with EchoEnv(base_url="https://openenv-echo-env.hf.space") as client:

        result = await client.reset()
        print(result.observation.echoed_message)

        result = await client.step(
            CallToolAction(tool_name="echo_message", arguments={"message": "Hello, OpenEnv!"})
        )
        print(result.observation.result)

        print("Reward:", result.reward)

asyncio.run(main())
"""

BLOCKING_2 = """
from echo_env import EchoEnv, CallToolAction

with EchoEnv(base_url="https://openenv-echo-env.hf.space").sync() as client:
    result = client.reset()
    result = client.step(
        CallToolAction(tool_name="echo_message", arguments={"message": "Hello, sync!"})
    )
    print(result.observation.result)
"""


SNIPPETS = [
    pytest.param(
        ASYNCHRONOUS, ["Echo environment ready!", "Hello, World!", "None"], id="asynchronous"
    ),
    pytest.param(BLOCKING, ["Hello, World!"], id="blocking"),
    pytest.param(
        ASYNCHRONOUS_2,
        ["Echo environment ready!", "Hello, OpenEnv!", "Reward: None"],
        id="asynchronous-2",
    ),
    pytest.param(BLOCKING_2, ["Hello, sync!"], id="blocking-2"),
]


@pytest.fixture(params=["our server", "a server of OpenEnv"])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "our server":
        with serving(EchoEnvironment) as address:
            yield address
    else:
        with FakeOpenEnv(openenv_echo) as fake:
            yield fake.url


def run(snippet: str, url: str) -> None:
    assert URL in snippet
    exec(compile(snippet.replace(URL, url), "snippet", "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize(("snippet", "printed"), SNIPPETS)
def test_a_snippet(
    snippet: str, printed: list[str], url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run(snippet, url)
    assert capsys.readouterr().out.splitlines() == printed
