"""The pool of threads, at its end."""

from __future__ import annotations

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
    pool.stop()
    with pytest.raises((OSError, ValueError)):
        pool.poller.wait(0)  # closed all the same
