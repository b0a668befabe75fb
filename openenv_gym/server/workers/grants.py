"""Places that a request may use: the supervisor counts them, a worker is told of one at a time."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Protocol

from openenv_gym import errors


__all__ = ["Denial", "Grant", "Grants", "Permit"]


class Permit(Protocol):
    """What beginning a session depends on."""

    def take(self) -> None:
        """Use it.

        Raises:
            OpenEnvGymError: No session may begin.
        """


class Grant:
    """A place for one session.

    Args:
        give_back: Called where nobody uses it.
    """

    def __init__(self, give_back: Callable[[], None]) -> None:
        self._give_back = give_back
        self._lock = threading.Lock()
        self._gone = False

    def take(self) -> None:
        """See `Permit`.

        Raises:
            CapacityError: It was used, or given back.
        """
        if not self._spend():
            raise errors.CapacityError("The place for this request has been used.")

    def end(self) -> None:
        """Give the place back, where it was not used."""
        if self._spend():
            self._give_back()

    def _spend(self) -> bool:
        with self._lock:
            gone, self._gone = self._gone, True
        return not gone


class Denial:
    """There is no place.

    Args:
        error: Why.
    """

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def take(self) -> None:
        """See `Permit`."""
        raise self._error


class Grants(threading.local):
    """What the request may use that this thread answers."""

    _current: Permit | None = None

    @contextlib.contextmanager
    def using(self, permit: Permit | None) -> Iterator[None]:
        """Have `take` use a permit."""
        before, self._current = self._current, permit
        try:
            yield
        finally:
            self._current = before

    def take(self) -> None:
        """Use the permit of the request that this thread answers.

        Raises:
            OpenEnvGymError: No session may begin.
        """
        if self._current is None:
            raise errors.CapacityError("No place was taken for this request.")
        self._current.take()
