"""Sessions of `EnvClient`: many, lost, slow, closed in the middle, held by nobody."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from openenv_gym import GenericEnvClient, errors
from tests.openenv.worlds import Move, Seen, Walk, WalkClient
from tests.support.fake_openenv import FakeOpenEnv
from tests.support.serving import serving
from tests.support.waiting import eventually


BOTH = pytest.mark.parametrize("protocol", ["binary", "json"])


@pytest.fixture
def url() -> Iterator[str]:
    with serving(Walk) as address:
        yield address


@BOTH
def test_sessions_of_one_client_are_apart_and_end_with_it(url: str, protocol: Any) -> None:
    async def play() -> None:
        async with WalkClient(base_url=url, protocol=protocol) as client:
            await client.reset(at=0)
            other = await client.new_session()
            assert type(other) is WalkClient
            await other.reset(at=9)
            assert (await client.step(Move(by=1))).observation.at == 1
            assert (await other.step(Move(by=1))).observation.at == 10
        for ended in (client, other):
            with pytest.raises(errors.SessionClosedError):
                await ended.step(Move(by=1))

    asyncio.run(play())


def test_a_client_can_be_connected_again_after_it_was_closed(url: str) -> None:
    async def play() -> None:
        client = WalkClient(base_url=url)
        await client.reset(at=1)
        await client.disconnect()
        with pytest.raises(errors.SessionClosedError, match="disconnected"):
            await client.state()
        assert await client.connect() is client
        assert (await client.state()).step_count == 0
        await client.close()
        await client.close()
        with pytest.raises(errors.SessionClosedError, match="closed"):
            await client.reset()
        async with client:
            await client.reset()

    asyncio.run(play())


def test_after_a_loss_only_a_reset_goes_on() -> None:
    async def play(fake: FakeOpenEnv) -> None:
        async with GenericEnvClient(base_url=fake.url) as client:
            await client.reset()
            fake.kill_connections()
            with pytest.raises(errors.ConnectionLostError):
                await client.step({})
            with pytest.raises(errors.SessionLostError):
                await client.step({})
            assert (await client.reset()).observation["count"] == 0
            assert (await client.step({})).observation["count"] == 1

    with FakeOpenEnv() as fake:
        asyncio.run(play(fake))
        assert fake.opened == 2


def test_a_reset_goes_on_where_the_server_hung_up_meanwhile() -> None:
    async def play(fake: FakeOpenEnv) -> None:
        async with GenericEnvClient(base_url=fake.url) as client:
            await client.reset()
            channel = await client._link.channel("look")
            fake.kill_connections()
            assert await asyncio.to_thread(eventually, lambda: channel.closed)
            assert (await client.reset()).observation["count"] == 0

    with FakeOpenEnv() as fake:
        asyncio.run(play(fake))
        assert fake.opened == 2


@BOTH
def test_a_client_that_is_closed_while_it_connects_has_no_session(protocol: Any) -> None:
    async def play(url: str) -> None:
        client = WalkClient(base_url=url, protocol=protocol)
        connecting = asyncio.create_task(client.connect())
        await asyncio.sleep(0)
        await client.close()
        await asyncio.gather(connecting, return_exceptions=True)
        with pytest.raises(errors.SessionClosedError):
            await client.reset()
        async with WalkClient(base_url=url, protocol=protocol) as other:  # the only place is free
            await other.reset()

    with serving(Walk, capacity=1) as url:
        asyncio.run(play(url))


@BOTH
def test_sessions_that_are_opened_while_the_client_is_closed_end(protocol: Any) -> None:
    async def play(url: str) -> None:
        client = await WalkClient(base_url=url, protocol=protocol).connect()
        opening = [asyncio.create_task(client.new_session()) for _ in range(3)]
        await asyncio.sleep(0)
        await client.close()
        for each in await asyncio.gather(*opening, return_exceptions=True):
            assert isinstance(each, errors.SessionClosedError)
        others = [WalkClient(base_url=url, protocol=protocol) for _ in range(4)]
        await asyncio.gather(*(other.reset() for other in others))
        await asyncio.gather(*(other.close() for other in others))

    with serving(Walk, capacity=4) as url:
        asyncio.run(play(url))


@BOTH
@pytest.mark.parametrize("turns", [1, 2, 3, 5, 8])
def test_a_close_that_is_cancelled_leaves_no_task_behind(
    url: str, protocol: Any, turns: int
) -> None:
    async def play() -> None:
        client = await WalkClient(base_url=url, protocol=protocol).connect()
        closing = asyncio.create_task(client.close())
        for _ in range(turns):
            await asyncio.sleep(0)
        closing.cancel()
        await asyncio.gather(closing, return_exceptions=True)
        end_s = time.monotonic() + 60
        while len(asyncio.all_tasks()) > 1:
            assert time.monotonic() < end_s, asyncio.all_tasks()
            await asyncio.sleep(0.02)

    asyncio.run(play())


@BOTH
def test_a_client_that_nobody_holds_gives_its_place_back(protocol: Any) -> None:
    with serving(Walk, capacity=1) as url:
        client = WalkClient(base_url=url, protocol=protocol).sync()
        client.reset()
        del client

        def has_room() -> bool:
            gc.collect()
            try:
                with WalkClient(base_url=url, protocol=protocol).sync() as other:
                    other.reset()
            except errors.CapacityError:
                return False
            return True

        assert eventually(has_room)


@BOTH
def test_a_time_limit_and_a_cancellation_leave_the_session_usable(protocol: Any) -> None:
    gate = threading.Event()

    class Slow(Walk):
        def step(self, action: Move) -> Seen:
            assert gate.wait(600)
            return super().step(action)

    async def play(url: str) -> None:
        async with WalkClient(base_url=url, protocol=protocol) as client:
            await client.reset(at=0)
            with pytest.raises(errors.DeadlineExceededError):
                await client.step(Move(by=1), timeout_s=2)  # it is sent long before
            step = asyncio.create_task(client.step(Move(by=1)))
            await asyncio.sleep(0.05)
            step.cancel()
            with pytest.raises(asyncio.CancelledError):
                await step
            gate.set()
            assert (await client.step(Move(by=1))).observation.at in (2, 3)

    with serving(Slow) as url:
        asyncio.run(play(url))


@BOTH
def test_tasks_at_once_on_one_client(url: str, protocol: Any) -> None:
    async def play() -> None:
        async with WalkClient(base_url=url, protocol=protocol) as client:
            await client.reset(at=0)
            results = await asyncio.gather(*(client.step(Move(by=1)) for _ in range(20)))
            assert [result.observation.at for result in results] == list(range(1, 21))

    asyncio.run(play())


@BOTH
def test_two_hundred_clients_in_one_loop(url: str, protocol: Any) -> None:
    async def one(at: int) -> int:
        async with WalkClient(base_url=url, connect_timeout_s=60, protocol=protocol) as client:
            await client.reset(at=at)
            return (await client.step(Move(by=1))).observation.at

    async def play() -> None:
        assert await asyncio.gather(*map(one, [*range(100)] * 2)) == [*range(1, 101)] * 2

    asyncio.run(play())


@BOTH
def test_a_server_without_a_place(protocol: Any) -> None:
    async def play(url: str) -> None:
        async with WalkClient(base_url=url, protocol=protocol) as client:
            await client.reset(at=0)
            with pytest.raises(errors.CapacityError) as caught:
                await (await client.new_session()).reset()
            assert caught.value.data["capacity"] == 1
            assert (await client.step(Move(by=1))).observation.at == 1

    with serving(Walk, capacity=1) as url:
        asyncio.run(play(url))
