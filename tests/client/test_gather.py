"""One thread drives several servers: requests begun at once, results in the order they come."""

from __future__ import annotations

import os
import select
import signal
import threading
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from openenv_gym import errors
from openenv_gym.client import Connection, gather
from openenv_gym.protocol.limits import Limits
from openenv_gym.protocol.messages import Result
from openenv_gym.protocol.patience import Patience
from openenv_gym.providers.thread import ThreadServer
from openenv_gym.server import Server, create_app
from tests.support.cutting import CuttingAddress
from tests.support.worlds import BlockingEnv, CountingEnv


@pytest.fixture
def server() -> Iterator[ThreadServer]:
    running = ThreadServer(Server(create_app(CountingEnv), limits=Limits(resume_grace_s=60.0)))
    yield running
    running.stop()


def soon(seconds: float = 60.0) -> float:
    return time.monotonic() + seconds


def outcomes(connections: list[Connection], op: str, args: list[Any], end_s: float) -> list[Any]:
    pairs = [(connection, connection.begin(op, args)) for connection in connections]
    return list(gather(pairs, end_s, Patience(0.001)))


def opened(server: ThreadServer, *options: dict[str, Any], **kwargs: Any) -> list[Connection]:
    connections = [Connection(server.address, each, **kwargs) for each in options]
    for connection in connections:
        connection.call("reset", [None, None])
    return connections


def test_a_request_in_two_halves(slow_server: ThreadServer, blocking: type[BlockingEnv]) -> None:
    (connection,) = opened(slow_server, {"step_s": 0.1})
    pending = connection.begin("step", [5])
    assert connection.advance(pending, soon()) is None
    assert connection.finish(pending, time.monotonic()) is None
    blocking.gate.set()
    result = connection.finish(pending, soon())
    assert result is not None
    assert result.value[0]["count"].tolist() == [1, 1, 5]
    assert connection.finish(pending, soon()) is result  # again, as often as one likes
    assert connection.last_timing.environment > 5e7
    assert connection.under_way == 0
    connection.close()


def test_results_come_in_the_order_in_which_they_are_ready() -> None:
    gates = [threading.Event() for _ in range(3)]

    class Gated(CountingEnv):
        def __init__(self, number: int) -> None:
            super().__init__()
            self.number = number

        def step(self, action: Any) -> Any:
            assert gates[self.number].wait(600)
            return super().step(action)

    server = ThreadServer(Server(create_app(Gated)))
    connections = opened(server, *({"number": number} for number in range(3)))
    pairs = [(connection, connection.begin("step", [7])) for connection in connections]
    coming = gather(pairs, soon(), Patience(0.001))
    for expected in (1, 2, 0):
        gates[expected].set()
        index, result = next(coming)
        assert index == expected
        assert isinstance(result, Result) and result.value[0]["count"].tolist() == [1, 1, 7]
    assert next(coming, None) is None
    for connection in connections:
        connection.close()
    server.stop()


def test_time_is_over_and_the_rest_comes_later(
    server: ThreadServer, slow_server: ThreadServer, blocking: type[BlockingEnv]
) -> None:
    (slow,), (fast,) = opened(slow_server, {}), opened(server, {})
    pairs = [(each, each.begin("step", [1])) for each in (slow, fast)]
    assert select.select([fast], [], [], 60)[0]
    assert [index for index, _ in gather(pairs, soon(0.1))] == [1]
    assert slow.under_way == 1
    blocking.gate.set()
    ((index, result),) = gather(pairs[:1], soon())
    assert index == 0 and isinstance(result, Result)
    slow.close()
    fast.close()


def test_a_late_reply_that_was_abandoned_shifts_nothing(
    slow_server: ThreadServer, blocking: type[BlockingEnv]
) -> None:
    (connection,) = opened(slow_server, {})
    pending = connection.begin("step", [1])
    assert list(gather([(connection, pending)], soon(0.02))) == []
    connection.abandon(pending)
    connection.abandon(pending)
    second = connection.begin("step", [2])
    blocking.gate.set()
    result = connection.finish(second, soon())
    assert result is not None and result.value[0]["count"].tolist() == [2, 1, 2]
    connection.close()


def test_several_requests_of_one_session(server: ThreadServer) -> None:
    (connection,) = opened(server, {"step_s": 0.01})
    pendings = [connection.begin("step", [number]) for number in range(10)]
    called = connection.call("step", [99])  # which reads the answers to the others, too
    assert called.value[0]["count"].tolist() == [11, 1, 99]
    for number, pending in enumerate(pendings):
        result = connection.advance(pending, soon())
        assert result is not None
        assert result.value[0]["count"].tolist() == [number + 1, 1, number]
    connection.close()


def test_large_replies_and_requests_from_many(server: ThreadServer) -> None:
    connections = opened(server, *[{"payload_bytes": 3_000_000}] * 4)
    for number in range(1, 4):
        found = dict(outcomes(connections, "step", [number], soon()))
        assert sorted(found) == [0, 1, 2, 3]
        assert all((each.value[0]["payload"] == number).all() for each in found.values())
    # More than a socket takes at once, while an answer that nobody wants fills the other way.
    blob = np.zeros(3_000_000, np.uint8)
    for connection in connections:
        connection.abandon(connection.begin("step", [9]))
    found = dict(outcomes(connections, "call", ["unknown", [blob], {}], soon()))
    assert all(isinstance(each, errors.EnvironmentFailedError) for each in found.values())
    for connection in connections:
        connection.close()


def test_an_error_is_an_outcome_and_the_others_go_on(server: ThreadServer) -> None:
    good, bad = opened(server, {}, {})
    pairs = [(good, good.begin("step", [1])), (bad, bad.begin("nonsense", []))]
    found = dict(gather(pairs, soon()))
    assert isinstance(found[0], Result)
    assert isinstance(found[1], errors.ProtocolError)
    good.close()
    bad.close()


def test_cuts_lose_nothing_and_double_nothing(server: ThreadServer) -> None:
    networks = [CuttingAddress(server.address) for _ in range(3)]
    connections = [Connection(network, {"payload_bytes": 1000}) for network in networks]
    for connection in connections:
        connection.call("reset", [None, None])
    for number in range(60):
        victim = networks[number % 3]
        if number % 2:
            victim.cut_down = (number * 37) % 1200
        else:
            victim.cut_up = number % 40
        found = dict(outcomes(connections, "step", [number], soon()))
        for each in found.values():
            assert each.value[0]["count"].tolist() == [number + 1, 1, number]
        assert len(found) == 3
    assert sum(network.cuts for network in networks) > 30
    for connection, network in zip(connections, networks, strict=True):
        connection.close()
        network.close()


def test_closed_by_another_thread(slow_server: ThreadServer) -> None:
    slow, other = opened(slow_server, {}, {})
    pairs = [(each, each.begin("step", [1])) for each in (slow, other)]
    closer = threading.Timer(0.2, slow.close)
    closer.start()
    index, outcome = next(gather(pairs, soon()))
    assert index == 0 and isinstance(outcome, errors.SessionClosedError)
    closer.join()
    other.forget()


def test_ctrl_c_while_it_waits(slow_server: ThreadServer, blocking: type[BlockingEnv]) -> None:
    connections = opened(slow_server, {}, {})
    pairs = [(each, each.begin("step", [1])) for each in connections]
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            list(gather(pairs, soon()))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    blocking.gate.set()
    found = dict(gather(pairs, soon()))  # still under way
    assert all(each.value[0]["count"].tolist() == [1, 1, 1] for each in found.values())  # type: ignore[union-attr]
    for connection in connections:
        connection.close()


def test_a_forked_child_takes_nothing(server: ThreadServer) -> None:
    connections = opened(server, {"step_s": 0.3}, {"step_s": 0.3})
    pairs = [(each, each.begin("step", [1])) for each in connections]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads
        pid = os.fork()
    if pid == 0:
        code = 1
        try:
            signal.alarm(60)
            found = []
            for connection, pending in pairs:
                try:
                    connection.advance(pending, soon())
                except errors.ForkedSessionError:
                    found.append(connection)
                connection.close()
            code = 0 if len(found) == 2 else 1
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0
    assert len(list(gather(pairs, soon()))) == 2
    for connection in connections:
        connection.close()


def test_a_reply_beyond_the_limit_fails_its_own_request(server: ThreadServer) -> None:
    small = Connection(server.address, {"payload_bytes": 200_000}, max_frame_bytes=100_000)
    pendings = [small.begin("reset", [None, None]), small.begin("ping", [])]
    with pytest.raises(errors.FrameTooLargeError):
        small.finish(pendings[0], soon())
    assert small.finish(pendings[1], soon()) is not None
    small.close()


def test_a_closed_session_is_not_begun(server: ThreadServer) -> None:
    (connection,) = opened(server, {})
    pending = connection.begin("close", [])
    assert connection.finish(pending, soon()) is not None
    assert connection.closed
    with pytest.raises(errors.SessionClosedError):
        connection.begin("step", [1])
    connection.close()
