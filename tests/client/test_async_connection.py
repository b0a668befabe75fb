"""Sessions on asyncio: exactly once, whatever breaks, and usable after every interruption."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from openenv_gym import errors
from openenv_gym.client import UnixAddress
from openenv_gym.client.async_connection import AsyncConnection
from openenv_gym.client.web_socket import WebSocketOptions
from openenv_gym.protocol.limits import Limits
from openenv_gym.providers.thread import ThreadServer
from openenv_gym.server import Server, create_app
from tests.support.cutting import CuttingAddress
from tests.support.fake_openenv import FakeOpenEnv
from tests.support.waiting import eventually
from tests.support.worlds import BlockingEnv, CountingEnv, FailingEnv


LIMITS = Limits(resume_grace_s=60.0, max_frame_bytes=1 << 20)
PATIENT = WebSocketOptions(connect_timeout_s=60.0)


@pytest.fixture
def server() -> Iterator[ThreadServer]:
    running = ThreadServer(Server(create_app(CountingEnv), limits=LIMITS))
    yield running
    running.stop()


async def there(condition: Callable[[], bool]) -> None:
    """Wait for what another thread does, while the loop goes on."""
    assert await asyncio.to_thread(eventually, condition)


@contextlib.asynccontextmanager
async def opened(address: Any, *args: Any, **kwargs: Any) -> AsyncIterator[AsyncConnection]:
    connection = await AsyncConnection.open(address, *args, **kwargs)
    try:
        yield connection
    finally:
        await connection.close()


async def count(connection: AsyncConnection, number: int, **kwargs: Any) -> list[int]:
    value = (await connection.request("step", [number], **kwargs)).value
    return value[0]["count"].tolist()


def test_a_session_from_beginning_to_end(server: ThreadServer) -> None:
    async def play() -> None:
        async with opened(server.address, {"payload_bytes": 5000}) as connection:
            assert connection.environment["name"] == "CountingEnv"
            observation, info = (await connection.request("reset", [3, None])).value
            assert info == {} and observation["count"].tolist() == [0, 1, 0]
            observation["payload"][:] = 1  # it belongs to whoever got it
            assert await count(connection, 7) == [1, 1, 7]
        with pytest.raises(errors.SessionClosedError):
            await connection.request("step", [1])

    asyncio.run(play())
    assert eventually(lambda: len(server.server.sessions) == 0)


def test_cuts_on_the_way_there_and_back_lose_and_repeat_nothing(network: CuttingAddress) -> None:
    async def play() -> None:
        async with opened(network, {"payload_bytes": 3000}) as connection:
            await connection.request("reset", [None, None])
            for number in range(1, 41):
                setattr(network, "cut_up" if number % 2 else "cut_down", number)
                assert await count(connection, number) == [number, 1, number]

    asyncio.run(play())
    assert network.cuts >= 30


def test_many_tasks_at_once_through_a_network_that_breaks(network: CuttingAddress) -> None:
    async def play() -> None:
        async with opened(network) as connection:
            await connection.request("reset", [None, None])
            network.cut_down = 5000
            network.cut_up = 3000
            counts = await asyncio.gather(*(count(connection, n) for n in range(1, 301)))
            assert counts == [[n, 1, n] for n in range(1, 301)]

    asyncio.run(play())
    assert network.cuts >= 1


def test_a_time_limit_and_a_cancellation_leave_the_session_usable(
    slow_server: ThreadServer, blocking: type[BlockingEnv]
) -> None:
    async def play() -> None:
        async with opened(slow_server.address) as connection:
            await connection.request("reset", [None, None])
            with pytest.raises(errors.DeadlineExceededError, match="step within 2 s"):
                await count(connection, 1, timeout_s=2)  # it is sent long before
            (session,) = slow_server.server.sessions.each()
            task = asyncio.create_task(count(connection, 2))
            await there(lambda: session.protocol.received == 3)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            blocking.gate.set()
            assert await count(connection, 3) == [3, 1, 3]

    asyncio.run(play())


def test_a_request_cancelled_before_it_was_sent_has_no_effect(blocking: type[BlockingEnv]) -> None:
    async def play(address: Any) -> None:
        async with opened(address) as connection:
            await connection.request("reset", [None, None])
            tasks = [asyncio.create_task(count(connection, number)) for number in (1, 2, 3)]
            # The server takes one at a time, so two are still here.
            await there(blocking.entered.is_set)
            tasks[1].cancel()
            blocking.gate.set()
            assert [await tasks[0], await tasks[2]] == [[1, 1, 1], [2, 1, 3]]

    running = ThreadServer(Server(create_app(blocking), limits=Limits(max_pipelined=1)))
    asyncio.run(play(running.address))
    running.stop()


def test_errors_of_the_environment_keep_the_session(server: ThreadServer) -> None:
    async def play(address: Any) -> None:
        async with opened(address) as connection:
            await connection.request("reset", [None, None])
            with pytest.raises(ValueError, match="one is not for me"):
                await connection.request("step", [1])
            await connection.request("step", [0])

    running = ThreadServer(Server(create_app(FailingEnv)))
    asyncio.run(play(running.address))
    running.stop()


def test_messages_that_are_too_large_for_either_side(server: ThreadServer) -> None:
    async def play() -> None:
        small = WebSocketOptions(max_message_bytes=20_000)
        async with opened(server.address, {"payload_bytes": 40_000}, small) as connection:
            with pytest.raises(errors.FrameTooLargeError):
                await connection.request("reset", [None, None])
            assert (await connection.request("state", [])).value["step_count"] == 0
            with pytest.raises(errors.FrameTooLargeError, match="the server takes"):
                await connection.request("step", [b"x" * (2 << 20)])
            assert (await connection.request("state", [])).value["step_count"] == 0

    asyncio.run(play())


def test_a_server_that_stops_is_told_at_once(
    slow_server: ThreadServer, blocking: type[BlockingEnv]
) -> None:
    async def play() -> None:
        server = slow_server
        async with opened(server.address, why_lost=server.why_lost) as connection:
            await connection.request("reset", [None, None])
            task = asyncio.create_task(count(connection, 1))
            await there(blocking.entered.is_set)
            await asyncio.to_thread(server.stop, 0.1)
            with pytest.raises((errors.ServerDiedError, errors.SessionError)):
                await task  # while the step goes on
            with pytest.raises(errors.SessionClosedError):
                await count(connection, 2)

    asyncio.run(play())


def test_close_breaks_off_a_request(slow_server: ThreadServer, blocking: type[BlockingEnv]) -> None:
    async def play() -> None:
        connection = await AsyncConnection.open(slow_server.address)
        await connection.request("reset", [None, None])
        task = asyncio.create_task(count(connection, 1))
        await there(blocking.entered.is_set)
        await connection.close()
        await connection.close()
        with pytest.raises(errors.SessionClosedError):
            await task  # while the step goes on

    asyncio.run(play())


def test_a_server_that_speaks_only_json_and_a_wrong_token(tmp_path: Path) -> None:
    async def play(url: str) -> None:
        with pytest.raises(errors.NotAnOpenEnvServerError, match=r"openenv-gym\.v1"):
            await AsyncConnection.open(url)

    with FakeOpenEnv() as fake:
        asyncio.run(play(fake.url))

    async def knock(path: str) -> None:
        for options in (WebSocketOptions(), WebSocketOptions(token="wrong")):
            with pytest.raises(errors.UnauthorizedError):
                await AsyncConnection.open(UnixAddress(path), options=options)
        async with opened(UnixAddress(path), None, WebSocketOptions(token="right")) as connection:
            await connection.request("ping", [])

    running = Server(create_app(CountingEnv), token="right")
    running.listen_unix(str(tmp_path / "s"))
    running.start()
    asyncio.run(knock(str(tmp_path / "s")))
    running.stop()


def test_a_forked_child_neither_uses_nor_ends_the_session(server: ThreadServer) -> None:
    async def play() -> None:
        async with opened(server.address) as connection:
            await connection.request("reset", [None, None])
            pid = os.fork()
            if pid == 0:
                try:
                    connection.request("step", [1]).send(None)
                except errors.ForkedSessionError:
                    os._exit(0)
                finally:
                    os._exit(1)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
            assert await count(connection, 1) == [1, 1, 1]

    asyncio.run(play())


def test_many_sessions_in_one_loop(server: ThreadServer) -> None:
    async def play() -> None:
        async def one(number: int) -> list[list[int]]:
            async with opened(server.address, None, PATIENT) as connection:
                await connection.request("reset", [None, None])
                return [await count(connection, number) for _ in range(3)]

        found = await asyncio.gather(*map(one, range(100)))
        assert found == [[[1, 1, n], [2, 1, n], [3, 1, n]] for n in range(100)]

    asyncio.run(play())
