"""How a server in a sandbox is reached: through a signed URL, which expires and is made anew."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable

from openenv_gym.client import Address, Loss, not_lost, parse_base_url


__all__ = ["SignedAddress"]

_VALID_S = 3600
_SPARE_S = 300  # a URL that is about to expire is not used any more


class SignedAddress:
    """A preview of a port, through the service's proxy, which knows us by the URL alone.

    A connection outlives the URL that it was made with; each later one, after a loss, may need
    another.

    Args:
        sign: Returns a URL that is valid for so many seconds.
        name: What errors call the server.
    """

    def __init__(self, sign: Callable[[int], str], name: str) -> None:
        self._sign = sign
        self._name = name
        self._lock = threading.Lock()
        self._current: Address | None = None
        self._until_s = 0.0

    @property
    def uri(self) -> str:
        """``wss://`` URI of the handshake."""
        return self._address().uri

    def dial(self, timeout_s: float, why_lost: Loss = not_lost) -> socket.socket:
        """Connect; see `Address`."""
        return self._address().dial(timeout_s, why_lost)

    def _address(self) -> Address:
        with self._lock:
            if self._current is None or time.monotonic() > self._until_s:
                begin_s = time.monotonic()
                self._current = parse_base_url(self._sign(_VALID_S))
                self._until_s = begin_s + _VALID_S - _SPARE_S
            return self._current

    def __str__(self) -> str:
        return self._name
