"""Containers that are kept ready, and how many are created at once."""

from __future__ import annotations

import copy
import dataclasses
import gc
import pickle
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from openenv_gym import metrics
from openenv_gym.client import Connection
from openenv_gym.errors import ServerStartError
from openenv_gym.providers import DockerProvider, ServerTarget
from openenv_gym.providers.docker import admission
from openenv_gym.providers.docker.admission import creating, removing
from openenv_gym.providers.docker.warm import WarmPool
from tests.support.engines import containers_there
from tests.support.images import image
from tests.support.waiting import eventually


ONCE = ServerTarget("echo_env")
AGAIN = dataclasses.replace(ONCE, resets_fully=True)


class _Fake:
    """Stands for a container where what counts is who gets it."""

    token = None
    address: Any = None

    def __init__(self, number: int) -> None:
        self.container_id = str(number)
        self.stopped = False
        self.lost: Any = None

    def why_lost(self) -> Any:
        return self.lost

    def log_tail(self) -> str:
        return "a log"

    def stop(self, grace_s: float = 0.0) -> None:
        self.stopped = True


class _Maker:
    def __init__(self) -> None:
        self.made: list[_Fake] = []
        self.fails = False

    def __call__(self, target: ServerTarget) -> Any:
        if self.fails:
            raise ServerStartError("no more")
        self.made.append(_Fake(len(self.made)))
        return self.made[-1]


@pytest.fixture
def make() -> _Maker:
    return _Maker()


@pytest.fixture
def pool(make: _Maker) -> Iterator[WarmPool]:
    pool = WarmPool(2, make)
    yield pool
    pool.close()


def _wait(pool: WarmPool, count: int) -> None:
    assert eventually(lambda: pool.ready() == count)


def test_one_that_is_ready_is_taken_and_replaced(pool: WarmPool, make: _Maker) -> None:
    pool.fill(ONCE)
    _wait(pool, 2)
    server = pool.take(ONCE)
    assert server.container_id in ("0", "1")
    _wait(pool, 2)
    server.stop()
    assert make.made[int(server.container_id)].stopped  # it is used once
    assert pool.ready() == 2
    server.stop()
    assert "stopped" in str(server.why_lost()) and server.log_tail() == ""


def test_how_often_one_was_ready_is_counted(pool: WarmPool, make: _Maker) -> None:
    def counted() -> list[int]:
        names = ("openenv_warm_hits_total", "openenv_warm_misses_total")
        return [metrics.PROCESS.counter(name, "").counts()[""] for name in names]

    hits, misses = counted()
    pool.take(ONCE).stop()
    assert counted() == [hits, misses + 1]
    _wait(pool, 2)
    pool.take(ONCE).stop()
    assert counted() == [hits + 1, misses + 1]


def test_one_that_resets_fully_is_used_again(pool: WarmPool, make: _Maker) -> None:
    pool.take(AGAIN).stop()
    _wait(pool, 3)
    for _ in range(5):
        pool.take(AGAIN).stop()
    assert len(make.made) == 3 and pool.ready() == 3
    crowd = []
    for _ in range(6):
        crowd.append(pool.take(AGAIN))
        assert eventually(lambda: pool.ready() >= 2)
    for server in crowd:
        server.stop()
    assert pool.ready() == 4  # no more than twice as many as asked for
    assert sum(not each.stopped for each in make.made) == 4


def test_one_that_is_gone_is_not_taken(pool: WarmPool, make: _Maker) -> None:
    pool.fill(ONCE)
    _wait(pool, 2)
    for each in make.made:
        each.lost = RuntimeError("gone")
    server = pool.take(ONCE)
    assert server.container_id not in ("0", "1")
    assert all(each.stopped for each in make.made[:2])


def test_one_that_cannot_be_made_ready(pool: WarmPool, make: _Maker) -> None:
    make.fails = True
    pool.fill(ONCE)
    with pytest.raises(ServerStartError):
        pool.take(ONCE)
    assert eventually(lambda: not any(pool._coming.values()))
    make.fails = False
    pool.take(ONCE).stop()
    _wait(pool, 2)


def test_after_close_nothing_is_kept(pool: WarmPool, make: _Maker) -> None:
    server = pool.take(AGAIN)
    _wait(pool, 2)
    pool.close()
    assert pool.ready() == 0
    server.stop()
    assert all(each.stopped for each in make.made)


def test_a_provider_is_copied_without_its_containers() -> None:
    provider = DockerProvider(warm=1)
    assert copy.deepcopy(provider) is provider
    other = pickle.loads(pickle.dumps(provider))
    assert other is not provider and repr(other) == repr(provider)


def test_so_many_are_created_at_once() -> None:
    inside, most = 0, 0
    lock = threading.Lock()
    both = threading.Barrier(2)  # there are two at once, however the threads are given a processor

    def create() -> None:
        nonlocal inside, most
        with creating("a daemon", 2):
            with lock:
                inside += 1
                most = max(most, inside)
            both.wait(60)
            time.sleep(0.02)  # for a third, if one came
            with removing("a daemon", 2), lock:  # which does not wait for creating
                inside -= 1

    threads = [threading.Thread(target=create) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 2


def test_waiting_for_a_place_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "_CREATE_S", 0.05)
    monkeypatch.setattr(admission, "_REMOVE_S", 0.05)
    refused = pytest.raises(ServerStartError, match="max_creates")
    with creating("another daemon", 1), refused, creating("another daemon", 1):
        pass
    with removing("another daemon", 1), removing("another daemon", 1):
        pass  # what is to go goes


@pytest.mark.container
class _Collecting(ServerTarget):
    """Has the garbage collector run where it is looked up."""

    def __hash__(self) -> int:
        gc.collect()
        return hash(self.package)


def _drop(finalizer: Callable[[], Any]) -> None:
    """Leave garbage, whose collection calls something."""

    class Owner:
        pass

    owner: Any = Owner()
    owner.itself = owner
    weakref.finalize(owner, finalizer)


def _ends(work: Callable[[], Any]) -> bool:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(10)
    return not thread.is_alive()


def test_an_environment_is_collected_while_another_is_made(make: _Maker) -> None:
    pool = WarmPool(2, make)  # which nobody closes: where this fails, nobody could
    target = _Collecting("echo_env", resets_fully=True)
    _drop(pool.take(target).stop)
    assert _ends(lambda: pool.take(target))
    _drop(pool.take(target).stop)
    assert _ends(lambda: pool.fill(target))


def test_a_container_is_removed_by_the_collector_while_another_is_created(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Places(dict[Any, Any]):
        def setdefault(self, *arguments: Any) -> Any:
            gc.collect()
            return super().setdefault(*arguments)

    monkeypatch.setattr(admission, "_places", Places())
    removed = []

    def remove() -> None:
        with removing("daemon", 2):
            removed.append(1)

    def create() -> None:
        with creating("daemon", 2):
            pass

    _drop(remove)
    assert _ends(create) and removed == [1]


def test_real_containers(docker: Any) -> None:
    image("echo_env")
    provider = DockerProvider(build="never", warm=1)
    ids = []
    for _ in range(3):
        server: Any = provider.start(AGAIN)
        ids.append(server.container_id)
        # Where the other one were not there yet, it might come after this one goes back, and be
        # the next to be taken.
        assert provider._pool is not None
        _wait(provider._pool, 1)
        connection = Connection(
            server.address, {}, token=server.token, why_lost=server.why_lost, connect_timeout_s=60
        )
        connection.call("reset", [3, None])
        connection.close()
        server.stop()
    assert len(set(ids)) == 1

    assert containers_there(docker, name=ids[0])
    _wait(provider._pool, 2)
    made = {server.container_id for server in provider._pool._idle[AGAIN]}
    del provider
    gc.collect()
    gone = set(ids) | made
    assert eventually(lambda: not any(containers_there(docker, name=name) for name in gone))
