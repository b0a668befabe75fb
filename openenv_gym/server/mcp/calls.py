"""Calling tools within a time limit.

Python can end no thread, so a tool that takes too long is left behind: the thread in which it runs
is used no more, and the next call gets another one. How many may be left behind is limited; beyond
that calls are refused until one of them has come to an end. Coroutines are cancelled instead.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import queue
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any

from openenv_gym import errors


__all__ = ["ToolCaller"]

_MAX_STRAYS = 8
_CANCEL_S = 1.0  # a coroutine that was cancelled has this long to come to an end

Job = Callable[["_ToolThread"], Any]


class ToolCaller:
    """Calls the tools of one environment, one at a time.

    With a limit, a call runs in a thread of the caller's own, the same one as long as no call
    overruns; without one, a plain function runs in the thread that asks.
    """

    def __init__(self) -> None:
        self._thread: _ToolThread | None = None
        self._strays: list[_ToolThread] = []
        self._lock = threading.Lock()

    def call(
        self, function: Callable[[], Any], timeout_s: float | None, *, is_async: bool = False
    ) -> Any:
        """Call a function, and wait for its result.

        Args:
            function: Takes no arguments.
            timeout_s: How long it may take, from now; None: as long as it likes.
            is_async: It returns a coroutine, which is run to its end.

        Raises:
            DeadlineExceededError: It took longer, or too many that did still run.
            BaseException: Whatever it raises.
        """
        if timeout_s is None and not is_async:
            return function()

        def job(thread: _ToolThread) -> Any:
            value = function()
            return thread.run_coroutine(value, timeout_s) if is_async else value

        thread = self._available()
        future = thread.put(job)
        limit_s = timeout_s
        if timeout_s is not None and is_async:
            limit_s = timeout_s + _CANCEL_S
        if concurrent.futures.wait((future,), limit_s).done:
            return future.result()
        with self._lock:
            self._strays.append(thread)
            self._thread = None
        thread.stop()
        raise _too_long(timeout_s)

    def close(self) -> None:
        """End the thread after what it does; those left behind end when they can."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.stop()

    def _available(self) -> _ToolThread:
        with self._lock:
            self._strays = [one for one in self._strays if one.is_alive()]
            if len(self._strays) >= _MAX_STRAYS:
                raise errors.DeadlineExceededError(
                    f"{len(self._strays)} calls that took too long still run, and no more are "
                    "begun meanwhile.",
                    hint="Wait, or end the session.",
                )
            if self._thread is None:
                self._thread = _ToolThread()
                # An environment that nobody closed takes its thread with it all the same.
                weakref.finalize(self, self._thread.stop).atexit = False
            return self._thread


def _too_long(timeout_s: float | None) -> errors.DeadlineExceededError:
    return errors.DeadlineExceededError(f"It took longer than {timeout_s:g} s.")


class _ToolThread:
    """A thread that does one thing after the other, with an event loop where one is needed."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[tuple[Job, Future[Any]] | None] = queue.SimpleQueue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._serve, name="openenv-tool", daemon=True)
        self._thread.start()

    def put(self, job: Job) -> Future[Any]:
        """Have something done."""
        future: Future[Any] = Future()
        self._jobs.put((job, future))
        return future

    def stop(self) -> None:
        """End after what was put."""
        self._jobs.put(None)

    def is_alive(self) -> bool:
        """It has not come to its end yet."""
        return self._thread.is_alive()

    def run_coroutine(self, coroutine: Coroutine[Any, Any, Any], timeout_s: float | None) -> Any:
        """Run a coroutine to its end, in this thread.

        Raises:
            DeadlineExceededError: It took longer, and was cancelled.
            BaseException: Whatever it raises.
        """
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        return self._loop.run_until_complete(_within(coroutine, timeout_s))

    def _serve(self) -> None:
        try:
            while (taken := self._jobs.get()) is not None:
                job, future = taken
                try:
                    future.set_result(job(self))
                except BaseException as error:
                    future.set_exception(error)
                del job, future, taken  # nothing is held while nothing is done
        finally:
            if self._loop is not None:
                with contextlib.suppress(RuntimeError):
                    self._loop.run_until_complete(self._loop.shutdown_asyncgens())
                self._loop.close()


async def _within(coroutine: Coroutine[Any, Any, Any], timeout_s: float | None) -> Any:
    task = asyncio.ensure_future(coroutine)
    done, _ = await asyncio.wait({task}, timeout=timeout_s)
    if not done:
        task.cancel()
        await asyncio.wait({task})
        if task.cancelled():
            raise _too_long(timeout_s)
    return task.result()
