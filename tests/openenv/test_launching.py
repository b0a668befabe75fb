"""Clients that start their servers themselves."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import Any, Literal

import pytest

from echo_env import EchoAction, EchoEnv
from openenv_gym import GenericEnvClient, SyncEnvClient, errors
from openenv_gym.providers import ProcessProvider
from openenv_gym.providers.thread import ThreadProvider
from openenv_gym.server import Server, create_app
from tests.openenv.worlds import Walk, WalkClient
from tests.support.waiting import eventually


GREETING = "Echo environment ready!"


@pytest.mark.parametrize("name", ["echo_env", "echo-env", "echo", "openenv/echo-env"])
def test_an_installed_environment_by_its_names(name: str) -> None:
    async def play() -> None:
        client = await EchoEnv.from_env(name, provider="thread")
        assert isinstance(client, EchoEnv)
        assert (await client.reset()).observation.echoed_message == GREETING
        server = client._link.server
        assert server is not None
        other = await client.new_session()
        assert (await other.reset()).observation.echoed_message == GREETING
        await client.close()
        assert server.why_lost() is not None

    asyncio.run(play())


def test_a_process_of_its_own_and_the_blocking_handle() -> None:
    client = EchoEnv.from_env("openenv/Echo-v0", use_docker=False).sync()
    assert isinstance(client, SyncEnvClient)
    server: Any = client.async_client._link.server
    with client:
        assert client.reset().observation.echoed_message == GREETING
        assert client.step(EchoAction(message="Hi")).reward == 0.2
    assert server._process.poll() is not None


def test_a_handle_is_a_coroutine_and_a_context() -> None:
    assert isinstance(asyncio.run(_once()), str)
    handle = EchoEnv.from_env("echo_env", provider="thread")
    with pytest.raises(errors.NotAwaitedError, match="from_env"):
        handle.reset  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(errors.NotAwaitedError, match=r"`await EchoEnv\.from_env\(\.\.\.\)`"):
        handle.reset  # type: ignore[attr-defined]  # noqa: B018
    handle.close()


def test_a_handle_alone_gives_the_blocking_client() -> None:
    with EchoEnv.from_env("echo_env", provider="thread") as client:
        assert isinstance(client, SyncEnvClient)
        assert client.reset().observation.echoed_message == GREETING
        server: Any = client.async_client._link.server
    assert server.why_lost() is not None


async def _once() -> str:
    async with EchoEnv.from_env("echo_env", provider="thread") as client:
        return (await client.reset()).observation.echoed_message


def test_nothing_is_fetched_from_anywhere() -> None:
    with pytest.raises(errors.UnknownEnvironmentError, match="echo_env") as caught:
        EchoEnv.from_env("somebody/unheard-of-env").sync()
    assert "Nothing is fetched" in str(caught.value)
    handle = EchoEnv.from_env("echo_env", provider="thread")
    handle.sync().close()
    with pytest.raises(RuntimeError):
        handle.sync()
    with pytest.raises(errors.InvalidOptionError, match="use_docker"):
        EchoEnv.from_env("echo_env", provider="thread", use_docker=True)


def test_options_of_the_environment() -> None:
    handle = EchoEnv.from_env("echo_env", provider="thread", options={"episode_length": 1})
    with handle.sync() as client:
        client.reset()
        assert client.step(EchoAction(message="Hi")).truncated


@pytest.mark.parametrize("protocol", ["binary", "json"])
def test_a_server_that_dies_is_told(protocol: Literal["binary", "json"]) -> None:
    handle = EchoEnv.from_env("echo_env", provider=ProcessProvider(), protocol=protocol)
    with handle.sync() as client:
        client.reset()
        server: Any = client.async_client._link.server
        server._process.kill()
        with pytest.raises(errors.ServerDiedError, match="SIGKILL"):
            client.step(EchoAction(message="Hi"))


def test_a_server_that_cannot_start_leaves_nothing() -> None:
    def launch() -> Any:
        raise errors.ServerStartError("no room")

    with pytest.raises(errors.ServerStartError, match="no room"):
        WalkClient(provider=launch).sync().connect()


def test_a_client_cancelled_while_its_server_starts_stops_it() -> None:
    started: list[Any] = []
    begun, gate = threading.Event(), threading.Event()

    def launch() -> Any:
        begun.set()
        assert gate.wait(60)
        started.append(ThreadProvider().serve(create_app(Walk)))
        return started[0]

    def stopped() -> bool:
        return bool(started) and started[0].why_lost() is not None

    async def play() -> None:
        task = asyncio.create_task(WalkClient(provider=launch).connect())
        assert await asyncio.to_thread(begun.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        gate.set()
        assert await asyncio.to_thread(eventually, stopped)

    asyncio.run(play())


class OpenEnvProvider:
    """Has the methods of OpenEnv's providers."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def start_container(self) -> str:
        self.calls.append("start")
        self._server = Server(create_app(Walk))
        host, port = self._server.listen_tcp("127.0.0.1", 0)
        self._server.start()
        return f"http://{host}:{port}"

    def wait_for_ready(self, base_url: str) -> None:
        self.calls.append(f"wait for {base_url[:17]}")

    def stop_container(self) -> None:
        self.calls.append("stop")
        self._server.stop()


def test_a_provider_of_openenv() -> None:
    provider = OpenEnvProvider()
    with WalkClient(provider=provider).sync() as client:
        assert client.reset(at=2).observation.at == 2
    assert provider.calls == ["start", "wait for http://127.0.0.1:", "stop"]


def test_an_image_that_is_not_ours_is_told(docker: Any) -> None:
    name = "openenv-gym-tests-foreign:1"
    docker.api.import_image_from_data(b"\0" * 1024, repository=name.split(":")[0], tag="1")
    try:
        with pytest.raises(errors.ImageError, match="holds no environment") as caught:
            GenericEnvClient.from_docker_image(name).sync()
        assert "base_url" in str(caught.value)
    finally:
        docker.api.remove_image(name)
    with pytest.raises(errors.ImageNotFoundError):
        GenericEnvClient.from_docker_image("openenv-gym-unheard-of:1").sync()


def test_a_client_that_nobody_closes_ends_quietly(caplog: pytest.LogCaptureFixture) -> None:
    gc.collect()  # what earlier tests have left, which may say something
    caplog.clear()
    servers: list[Any] = []

    def use() -> None:
        client = EchoEnv.from_env("echo_env", provider="thread").sync()
        client.reset()
        servers.append(client.async_client._link.server)

    use()
    assert eventually(lambda: gc.collect() >= 0 and servers[0].why_lost() is not None)
    assert not eventually(lambda: gc.collect() < 0, within_s=0.5)
    assert "destroyed" not in caplog.text  # asyncio, of a task that was pending
