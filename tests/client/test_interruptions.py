"""Signals, forks and other threads come in between."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from openenv_gym import errors
from openenv_gym.client import Connection
from openenv_gym.providers.thread import ThreadServer
from openenv_gym.server import Server, create_app
from tests.support.waiting import eventually
from tests.support.worlds import BlockingEnv, CountingEnv


@pytest.fixture
def on_alarm() -> Iterator[Any]:
    before = signal.getsignal(signal.SIGALRM)
    yield lambda handler: signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def stepping(connection: Connection) -> tuple[threading.Thread, list[Any]]:
    """Begin a step in another thread; return the thread, and where its outcome will be."""
    outcome: list[Any] = []

    def step() -> None:
        try:
            outcome.append(connection.call("step", [1]).value)
        except errors.OpenEnvGymError as error:
            outcome.append(error)

    thread = threading.Thread(target=step)
    sent = connection.frames_sent
    thread.start()
    assert eventually(lambda: connection.frames_sent > sent)
    return thread, outcome


def test_a_child_forked_during_a_request_does_not_hang(
    slow_server: ThreadServer, blocking: type[BlockingEnv]
) -> None:
    connection = Connection(slow_server.address, {})
    connection.call("reset", [None, None])
    thread, outcome = stepping(connection)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads
        pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(60)
        code = 1
        try:
            connection.call("step", [2])
        except errors.ForkedSessionError:
            connection.close()
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0
    blocking.gate.set()
    thread.join()
    assert outcome[0][0]["count"].tolist() == [1, 1, 1]
    connection.close()


def test_a_signal_handler_closes_during_a_request(
    slow_server: ThreadServer, blocking: type[BlockingEnv], on_alarm: Any
) -> None:
    connection = Connection(slow_server.address, {})
    connection.call("reset", [None, None])
    refused: list[Any] = []

    def handler(*_: Any) -> None:
        try:
            connection.call("state", [])
        except errors.SessionError as error:
            refused.append(error)
        connection.close()

    def send_signal() -> None:
        assert blocking.entered.wait(60)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGALRM)

    on_alarm(handler)
    sender = threading.Thread(target=send_signal)
    sender.start()
    with pytest.raises(errors.SessionClosedError, match="closed during a request"):
        connection.call("step", [1])
    sender.join()
    assert "in the middle of another request" in str(refused[0])
    assert connection.closed
    connection.close()


def test_another_thread_closes_during_a_request(slow_server: ThreadServer) -> None:
    connection = Connection(slow_server.address, {})
    connection.call("reset", [None, None])
    thread, outcome = stepping(connection)
    connection.close()
    thread.join()
    assert isinstance(outcome[0], errors.SessionClosedError)
    with pytest.raises(errors.SessionClosedError, match="closed during a request"):
        connection.call("step", [1])


def test_close_waits_for_a_short_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openenv_gym.client.connection._BUSY_S", 60.0)  # of which it is one
    server = ThreadServer(Server(create_app(CountingEnv)))
    connection = Connection(server.address, {"step_s": 0.4})
    connection.call("reset", [None, None])
    thread, outcome = stepping(connection)
    connection.close(60.0)
    thread.join()
    assert outcome[0][0]["count"].tolist() == [1, 1, 1]
    server.stop()


def test_signals_do_not_prolong_a_time_limit(slow_server: ThreadServer, on_alarm: Any) -> None:
    connection = Connection(slow_server.address, {})
    connection.call("reset", [None, None])
    on_alarm(lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.2, 0.2)
    begin_s = time.monotonic()
    with pytest.raises(errors.DeadlineExceededError):
        connection.call("step", [1], timeout_s=0.8)
    assert time.monotonic() - begin_s > 0.7
    signal.setitimer(signal.ITIMER_REAL, 0)
    connection.close(0.1)
