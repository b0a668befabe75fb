"""One line on standard error: how far a collection has come."""

from __future__ import annotations

import sys
import time
from typing import TextIO


__all__ = ["Progress"]

_SHOW_S = 0.2
_TELL_S = 10.0  # where it is not drawn over, but written once more
_WIDTH = 24


class Progress:
    """A bar that is drawn again and again, where somebody looks.

    Args:
        total: Batches of the collection.
        shown: Draw it; None: where standard error is a terminal.
        stream: Where.
    """

    def __init__(self, total: int, *, shown: bool | None, stream: TextIO | None = None) -> None:
        self._total = total
        self._stream = stream or sys.stderr
        self._terminal = self._stream.isatty()
        self._shown = self._terminal if shown is None else shown
        self._every_s = _SHOW_S if self._terminal else _TELL_S
        self._begin_s = time.monotonic()
        self._drawn_s = self._begin_s
        self._steps = self._episodes = 0

    def add(self, steps: int, episodes: int) -> None:
        """A batch is there."""
        self._steps += steps
        self._episodes += episodes

    def draw(self, there: int, at_work: int, losses: int, *, last: bool = False) -> None:
        """Draw it, unless that was a moment ago.

        Args:
            there: Batches that are there.
            at_work: Workers that play.
            losses: Workers and servers that were lost.
            last: It is not drawn again.
        """
        now_s = time.monotonic()
        if not self._shown or not (last or now_s - self._drawn_s > self._every_s):
            return
        self._drawn_s = now_s
        filled = _WIDTH * there // max(self._total, 1)
        rate = self._steps / max(now_s - self._begin_s, 1e-9)
        lost = f", {losses} lost" if losses else ""
        text = (
            f"collecting [{'#' * filled:{_WIDTH}}] {there}/{self._total}, {self._steps:,} steps, "
            f"{rate:,.0f} steps/s, {self._episodes:,} episodes, {at_work} at work{lost}"
        )
        if self._terminal:
            text = f"\r\x1b[K{text}"
        self._stream.write(text if self._terminal and not last else f"{text}\n")
        self._stream.flush()
