"""The blocking client: in scripts, threads, notebooks and forked children."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from openenv_gym import SyncEnvClient, errors
from tests.openenv.worlds import Move, Walk, WalkClient
from tests.support.serving import serving
from tests.support.waiting import eventually


@pytest.fixture
def url() -> Iterator[str]:
    with serving(Walk) as address:
        yield address


def test_the_same_methods_without_await(url: str) -> None:
    with WalkClient(base_url=url).sync() as client:
        assert isinstance(client, SyncEnvClient)
        assert client.reset(at=1).observation.at == 1
        assert client.step(Move(by=2)).observation.at == 3
        assert client.state().at == 3
        other = client.new_session()
        assert other.reset(at=5).observation.at == 5
        assert client.base_url == url
        assert client.sync() is client
    for ended in (client, other):
        with pytest.raises(errors.SessionClosedError):
            ended.reset()


def test_with_alone_gives_the_blocking_client(url: str) -> None:
    with WalkClient(base_url=url) as client:
        assert isinstance(client, SyncEnvClient)
        assert client.reset(at=1).observation.at == 1


def test_connect_and_disconnect(url: str) -> None:
    client = WalkClient(base_url=url).sync()
    assert client.connect() is client
    client.disconnect()
    with pytest.raises(errors.SessionClosedError, match=r"connect\(\)"):
        client.reset()
    client.connect().reset()
    client.close()
    client.close()


def test_methods_of_a_subclass_block_as_well(url: str) -> None:
    class Runner(WalkClient):
        async def run(self, steps: int) -> int:
            return [(await self.step(Move(by=1))).observation.at for _ in range(steps)][-1]

        def plain(self) -> str:
            return "plain"

    with Runner(base_url=url).sync() as client:
        client.reset(at=0)
        assert (client.run(3), client.plain()) == (3, "plain")
        with pytest.raises(AttributeError):
            client.unheard_of  # noqa: B018


def test_in_a_thread_whose_own_loop_runs(url: str) -> None:
    async def notebook() -> int:
        with WalkClient(base_url=url).sync() as client:
            return client.reset(at=4).observation.at

    assert asyncio.run(notebook()) == 4


def test_threads_share_a_client_and_have_their_own(url: str) -> None:
    def own(at: int) -> int:
        with WalkClient(base_url=url).sync() as client:
            client.reset(at=at)
            return client.step(Move(by=1)).observation.at

    with WalkClient(base_url=url).sync() as shared, ThreadPoolExecutor(16) as threads:
        shared.reset(at=0)
        moved = threads.map(lambda _: shared.step(Move(by=1)).observation.at, range(32))
        assert sorted(moved) == list(range(1, 33))
        assert list(threads.map(own, range(32))) == list(range(1, 33))
    assert [t.name for t in threading.enumerate()].count("openenv-gym-io") == 1


def test_a_forked_child_makes_its_own(url: str) -> None:
    with WalkClient(base_url=url).sync() as client:
        client.reset(at=0)
        pid = os.fork()
        if pid == 0:
            code = 3
            try:
                code = _plays_in_child(client, url)
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert client.step(Move(by=1)).observation.at == 1


def _plays_in_child(client: Any, url: str) -> int:
    try:
        client.step(Move(by=1))
        return 1
    except errors.SessionError:
        pass
    client.close()
    with WalkClient(base_url=url).sync() as own:
        return 0 if own.reset(at=8).observation.at == 8 else 2


def test_a_server_of_its_own_ends_when_nobody_holds_the_client() -> None:
    client = WalkClient.from_env("echo_env", provider="thread").sync()
    server = client.async_client._link.server
    assert server is not None and server.why_lost() is None
    client.disconnect()
    del client
    # The loop's thread may hold it a moment longer.
    assert eventually(lambda: gc.collect() >= 0 and server.why_lost() is not None)


@pytest.mark.parametrize("protocol", ["binary", "json"])
def test_a_client_that_nobody_holds_gives_its_place_back(protocol: Any) -> None:
    with serving(Walk, capacity=1, max_waiting=0) as url:

        def use() -> bool:
            gc.collect()
            client = WalkClient(base_url=url, protocol=protocol).sync()
            try:
                return bool(client.reset(at=1).observation.at == 1)
            except errors.CapacityError:
                client.close()
                return False

        assert use()
        assert eventually(use)
