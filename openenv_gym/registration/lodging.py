"""A server on which several members of a vector environment have a session each."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from openenv_gym.providers.base import GRACE_S


if TYPE_CHECKING:
    from openenv_gym.client import Address
    from openenv_gym.errors import ConnectionLostError
    from openenv_gym.providers import RunningServer

__all__ = ["Lodging", "Stay"]


class Lodging:
    """Starts a server for the first who needs it, and stops it when the last one has left.

    Where it is gone, whoever comes next finds a fresh one; each of them is stopped by the last of
    its own.

    Args:
        launch: Starts a server.
    """

    def __init__(self, launch: Callable[[], RunningServer]) -> None:
        self._launch = launch
        # Reentrant: the garbage collector may discard a member, which leaves, in any line of ours.
        self._lock = threading.RLock()
        self._house: _House | None = None

    def enter(self) -> Stay:
        """Return a stay on a server that runs, as far as one can tell.

        Raises:
            ProviderError: No server can be started.
        """
        with self._lock:
            house = self._house
            if house is None or house.guests == 0 or house.running.why_lost() is not None:
                house = self._house = _House(self._launch())
            house.guests += 1
            return Stay(self._lock, house)


class _House:
    def __init__(self, running: RunningServer) -> None:
        self.running = running
        self.guests = 0
        self.is_open = False
        self.opening = threading.Lock()


class Stay:
    """A server as one of its guests sees it: `stop` ends the stay.

    Attributes:
        address: Where the server is.
        token: Credential for it.
    """

    def __init__(self, lock: threading.RLock, house: _House) -> None:
        self._lock = lock
        self._house = house
        self._ended = False
        self.token = house.running.token

    @contextlib.contextmanager
    def opening(self) -> Iterator[None]:
        """Open a session: the first one alone, for it may fail for all the others."""
        house = self._house
        with house.opening if not house.is_open else contextlib.nullcontext():
            yield
        house.is_open = True

    @property
    def address(self) -> Address:
        """Where it is."""
        return self._house.running.address

    def why_lost(self) -> ConnectionLostError | None:
        """Tell why the server is gone; see `RunningServer`."""
        return self._house.running.why_lost()

    def log_tail(self) -> str:
        """Return the last lines that it wrote."""
        return self._house.running.log_tail()

    def stop(self, grace_s: float = GRACE_S) -> None:
        """Leave, and stop the server where nobody else is there; safe to repeat."""
        with self._lock:
            if self._ended:
                return
            self._ended = True
            self._house.guests -= 1
            last = self._house.guests == 0
        if last:
            self._house.running.stop(grace_s)
