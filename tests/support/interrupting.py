"""Ctrl-C: as a terminal sends it to a command and to all that it has started, and in this process."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

from tests.support.waiting import eventually


__all__ = ["interrupt", "interrupted_in"]


def interrupt(*arguments: str, once: Callable[[], bool]) -> str:
    """Run ``openenv-gym``, interrupt it, and return what it said on standard error.

    Args:
        *arguments: Its arguments.
        once: True where it is far enough.
    """
    command = [sys.executable, "-m", "openenv_gym.cli", *arguments]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stderr is not None
        assert eventually(lambda: once() or process.poll() is not None, 300)
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(60) == 1
        said = process.stderr.read()
    assert "Traceback" not in said
    return said


@contextlib.contextmanager
def interrupted_in(function: str, *, once: Callable[[], bool] = lambda: True) -> Iterator[None]:
    """Interrupt this thread, as Ctrl-C does, once it is in a function of this name: not before.

    By a signal of its own: the timer of the test goes on.

    Args:
        function: One that it does not leave by itself.
        once: What has to be true as well.
    """
    thread = threading.main_thread()
    assert thread is threading.current_thread() and thread.ident is not None
    ident = thread.ident
    over = threading.Event()

    def is_there() -> bool:
        frame = sys._current_frames().get(ident)
        while frame is not None and frame.f_code.co_name != function:
            frame = frame.f_back
        return frame is not None and once()

    def watch() -> None:
        if eventually(lambda: over.is_set() or is_there(), 100) and not over.is_set():
            signal.pthread_kill(ident, signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, signal.default_int_handler)
    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
        signal.signal(signal.SIGUSR1, before)
