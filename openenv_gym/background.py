"""A thread with an event loop, for blocking callers of what is asynchronous."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from openenv_gym import errors


__all__ = ["Background"]

T = TypeVar("T")

_JOIN_S = 2.0


class _Loop:
    """A loop of this process, started when it is first needed."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lock = threading.Lock()
        self.loop: asyncio.AbstractEventLoop | None = None
        self.thread: threading.Thread | None = None

    def get(self) -> asyncio.AbstractEventLoop:
        with self.lock:
            if self.loop is None:
                self.loop = asyncio.new_event_loop()
                self.thread = threading.Thread(
                    target=self.loop.run_forever, name=self.name, daemon=True
                )
                self.thread.start()
            return self.loop

    def stop(self) -> None:
        loop, thread = self.loop, self.thread
        if loop is None or thread is None:
            return
        with contextlib.suppress(RuntimeError):  # it is closed already
            loop.call_soon_threadsafe(_cancel_and_stop, loop)
        thread.join(_JOIN_S)
        if not thread.is_alive():
            loop.close()
            self.loop = self.thread = None


def _cancel_and_stop(loop: asyncio.AbstractEventLoop) -> None:
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    waiting = asyncio.gather(*tasks, return_exceptions=True) if tasks else None
    if waiting is None:
        loop.stop()
    else:
        waiting.add_done_callback(lambda _: loop.stop())


_of_parents: list[_Loop] = []  # never closed: that would reach for what the parent uses


class Background:
    """A thread whose loop runs coroutines for others; one for the life of the process.

    Args:
        name: Name of the thread.
    """

    def __init__(self, name: str) -> None:
        self._loop = _Loop(name)
        os.register_at_fork(after_in_child=self._forget)
        atexit.register(lambda: self._loop.stop())

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop, and wait for what it returns.

        It works in every thread, also in one whose own loop is running (a notebook), and in a
        forked child, which has a loop of its own. Limits are the coroutine's business. Where the
        wait is interrupted (Ctrl-C), the coroutine is cancelled.

        Raises:
            ConfigurationError: It is called in the loop itself, which would wait for ever.
            Exception: What the coroutine raises.
        """
        if threading.current_thread() is self._loop.thread:
            coroutine.close()
            raise errors.ConfigurationError(
                "A blocking call was made inside the loop that serves blocking calls.",
                hint="Use the asynchronous client there, and await its methods.",
            )
        future = self.start(coroutine)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def start(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine on the loop; cancelling what is returned cancels it.

        Other loops wait for it by `asyncio.wrap_future`.
        """
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop.get())

    def _forget(self) -> None:
        _of_parents.append(self._loop)
        self._loop = _Loop(self._loop.name)
