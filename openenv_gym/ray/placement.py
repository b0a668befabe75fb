"""Which of several servers a worker goes to."""

from __future__ import annotations

from dataclasses import dataclass


__all__ = ["Placement"]

_BASE_S = 1.0
_MAX_S = 60.0


@dataclass
class _Place:
    workers: int = 0
    strikes: int = 0
    shut_until_s: float = 0.0


class Placement:
    """Spreads workers evenly over servers, and keeps them away from those that are in trouble.

    Args:
        count: How many servers there are, numbered from 0.
    """

    def __init__(self, count: int) -> None:
        self._places = [_Place() for _ in range(count)]

    def take(self, now_s: float) -> int | None:
        """Return the server that has the fewest workers; None where none can be used now."""
        able = [n for n, place in enumerate(self._places) if place.shut_until_s <= now_s]
        if not able:
            return None
        number = min(able, key=lambda n: (self._places[n].workers, self._places[n].strikes, n))
        self._places[number].workers += 1
        return number

    def leave(self, number: int) -> None:
        """A worker has left a server."""
        self._places[number].workers -= 1

    def strike(self, number: int, now_s: float) -> None:
        """A server refused a worker, or went: nobody goes there for a second, two, four, ..."""
        place = self._places[number]
        place.shut_until_s = now_s + min(_BASE_S * 2**place.strikes, _MAX_S)
        place.strikes += 1

    def good(self, number: int) -> None:
        """A server did what it was asked to."""
        self._places[number].strikes = 0
