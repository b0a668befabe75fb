"""What a tab's browser is told, over its WebSocket: all rows of the history, the latest view."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import Any

from openenv_gym.web.views import plain


__all__ = ["Outlet"]

_MAX_ROWS = 500


class Outlet:
    """Gathers what is new until the browser takes it; any thread may tell it something.

    A browser that takes a view later than the next one is there misses it, but no row of the
    history.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news: asyncio.Event | None = None
        self._rows: list[dict[str, Any]] = []
        self._view: dict[str, Any] | None = None
        self._last: dict[str, Any] | None = None
        self._notices: list[dict[str, Any]] = []
        self._number = 0

    def connect(self, loop: asyncio.AbstractEventLoop) -> asyncio.Event:
        """Tell a browser's (new) connection, from now on; the last view comes again.

        Returns:
            What the connection takes the news with; those before it get no more.
        """
        news = asyncio.Event()
        with self._lock:
            before = self._loop, self._news
            self._loop, self._news = loop, news
            self._view = self._view or self._last
        _wake(*before)  # which hears that it is told no more
        self._wake()
        return news

    def show(self, view: dict[str, Any], row: dict[str, Any] | None = None) -> None:
        """Show a view, and add a row to the history."""
        with self._lock:
            self._number += 1
            self._view = self._last = {**view, "number": self._number}
            if row is not None:
                self._rows = [*self._rows[-_MAX_ROWS:], row]
        self._wake()

    def say(self, **notice: Any) -> None:
        """Tell something else; ``kind`` says what."""
        with self._lock:
            self._notices.append(notice)
        self._wake()

    async def take(self, news: asyncio.Event) -> list[dict[str, Any]]:
        """Return what is new, as messages that JSON can carry; wait for it.

        Args:
            news: What `connect` returned.

        Returns:
            The messages; none where another connection has come in the place of this one.
        """
        while True:
            await news.wait()
            news.clear()
            with self._lock:
                if news is not self._news:
                    return []
                notices, self._notices = self._notices, []
                rows, self._rows = self._rows, []
                view, self._view = self._view, None
            messages = list(notices)
            if view is not None or rows:
                messages.append({"kind": "view", "rows": rows, **(view or {})})
            if messages:
                # Whatever was told: browsers read no JSON with NaN or Infinity in it.
                return [plain(each) for each in messages]

    def _wake(self) -> None:
        with self._lock:
            line = self._loop, self._news
        _wake(*line)


def _wake(loop: asyncio.AbstractEventLoop | None, news: asyncio.Event | None) -> None:
    if loop is not None and news is not None:
        with contextlib.suppress(RuntimeError):  # it is over, and so is the page
            loop.call_soon_threadsafe(news.set)
