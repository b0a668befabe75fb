"""OpenEnv's client API on containers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from echo_env import CallToolAction, EchoAction, EchoEnv
from openenv_gym import GenericEnvClient
from tests.providers.docker.conftest import ours
from tests.support.images import image
from tests.support.waiting import eventually


pytestmark = pytest.mark.container


def test_a_client_starts_its_container_and_removes_it(docker: Any) -> None:
    name = image("echo_env")
    before = ours(docker)

    async def play() -> None:
        async with EchoEnv.from_docker_image(name) as client:
            result = await client.reset(seed=1)
            assert result.observation.echoed_message == "Echo environment ready!"
            call = CallToolAction(tool_name="echo_message", arguments={"message": "Hello, World!"})
            result = await client.step(call)
            assert result.observation.result == "Hello, World!"
            other = await client.new_session()
            await other.reset()
            assert (await other.state()).step_count == 0
            assert (await client.state()).step_count == 1
            assert len(ours(docker) - before) == 1

    asyncio.run(play())
    assert eventually(lambda: not ours(docker) - before)


def test_the_blocking_clients(docker: Any) -> None:
    name = image("echo_env")
    with EchoEnv.from_docker_image(name).sync() as client:
        client.reset()
        result = client.step(EchoAction(message="Hello"))
        assert (result.observation.echoed_message, result.reward) == ("Hello", 0.5)
    with GenericEnvClient.from_docker_image(name).sync() as client:
        client.reset()
        assert client.step({"message": "Hi"}).observation["echoed_message"] == "Hi"
