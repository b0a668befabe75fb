"""The pool of threads, at its end."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from openenv_gym.server.pool import Pool


@pytest.mark.parametrize("started", [True, False])
def test_threads_that_end_at_once_leave_something_to_be_woken(
    started: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = Pool()
    if started:
        pool.start()
    wake_all = pool.poller.wake_all

    def slowly() -> None:
        wake_all()
        time.sleep(1.0)  # so that all have ended
        wake_all()  # which fails where the last one has closed the poller

    monkeypatch.setattr(pool.poller, "wake_all", slowly)
    pool.stop(60.0)
    with pytest.raises((OSError, ValueError)):
        pool.poller.wait(0)  # closed all the same


def test_who_has_stopped_it_finds_none_of_its_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    leave = Pool._leave

    def slowly(pool: Pool) -> None:
        if threading.current_thread().name == "openenv-worker":
            time.sleep(0.2)
        leave(pool)

    before = set(threading.enumerate())
    pool = Pool()
    pool.start()
    for _ in range(3):
        pool.spawn(lambda: None)
    monkeypatch.setattr(Pool, "_leave", slowly)
    pool.stop(60.0)
    assert not set(threading.enumerate()) - before


def test_when_the_system_gives_threads_again_others_are_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start, refused = threading.Thread.start, threading.Event()

    def start_or_not(thread: threading.Thread) -> None:
        if thread.name == "openenv-worker" and not refused.is_set():
            if threading.current_thread().name == "openenv-monitor":
                refused.set()
            raise RuntimeError("can't start new thread")
        start(thread)

    pool, gate, served = Pool(), threading.Event(), threading.Event()
    pool.start()
    monkeypatch.setattr(threading.Thread, "start", start_or_not)
    done = threading.Event()
    pool.spawn(done.set)
    assert done.is_set()  # in this thread, for want of another
    pairs = [socket.socketpair() for _ in range(2)]
    try:
        for (theirs, ours), handler in zip(
            pairs, (lambda _: gate.wait(60), lambda _: served.set()), strict=True
        ):
            pool.add(ours.fileno(), handler)
            pool.arm(ours.fileno())
            theirs.send(b"x")
        assert served.wait(30)  # although the only thread there was is busy
        assert refused.is_set()
    finally:
        gate.set()
        pool.stop(60.0)
        for sock in (sock for pair in pairs for sock in pair):
            sock.close()
