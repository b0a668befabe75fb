"""Who is at the other end of a connection: for logs, and for the bounds of a single peer."""

from __future__ import annotations

import contextlib
import ipaddress
from collections import Counter
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

from openenv_gym import errors


__all__ = ["PeerBounds", "asked_by", "forwarded_peer", "group_of", "peer_of", "who_asks"]

_asking: ContextVar[str] = ContextVar("openenv_peer", default="")


@contextlib.contextmanager
def asked_by(peer: str) -> Iterator[None]:
    """Have `who_asks` return a peer, while its HTTP request is answered."""
    token = _asking.set(peer)
    try:
        yield
    finally:
        _asking.reset(token)


def who_asks() -> str:
    """Return whose HTTP request this thread answers; nobody's where it answers none."""
    return _asking.get()


def peer_of(address: Any) -> str:
    """Return how the address of an accepted connection is written: ``host:port``, or ``unix``."""
    if not isinstance(address, tuple):
        return "unix"
    host, port = address[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def forwarded_peer(header: str) -> str | None:
    """Return the address that the nearest proxy added to a header; None where it added none.

    What stands before it the client may have written itself.
    """
    last = header.rpartition(",")[2].strip()
    return last if group_of(last) is not None else None


def group_of(peer: str) -> str | None:
    """Return as who a peer counts; None where it counts as nobody: it came by a Unix socket.

    Of IPv6 whoever has one address has a network of 64 bits, and more addresses than could be
    counted.
    """
    host = peer
    if peer.startswith("["):
        host = peer[1:].partition("]")[0]
    elif peer.count(":") == 1:
        host = peer.partition(":")[0]
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(address) >> 64 << 64, 64)))


class PeerBounds:
    """How many sessions each peer has, those included that wait; its owner holds a lock.

    Args:
        most: How many it may have; None for any number.
    """

    def __init__(self, most: int | None) -> None:
        self._most = most
        self._counts: Counter[str] = Counter()

    def check(self, peer: str) -> None:
        """Refuse a peer that has as many as it may have.

        Raises:
            CapacityError: It has.
        """
        group = self._group_of(peer)
        if self._most is None or group is None or self._counts[group] < self._most:
            return
        raise errors.CapacityError(
            f"{group} has {self._counts[group]} of at most {self._most} sessions on this server, "
            "those included that wait for a place.",
            hint="Close environments, put several in one vector session, or have whoever runs the "
            "server raise --max-sessions-per-peer.",
            data={
                "sessions": self._counts[group],
                "capacity": self._most,
                "max_sessions_per_peer": self._most,
            },
        )

    def count(self, peer: str) -> None:
        """Note that a peer has one more."""
        if (group := self._group_of(peer)) is not None:
            self._counts[group] += 1

    def uncount(self, peer: str) -> None:
        """Note that a peer has one less."""
        if (group := self._group_of(peer)) is None:
            return
        self._counts[group] -= 1
        if self._counts[group] <= 0:
            del self._counts[group]

    def _group_of(self, peer: str) -> str | None:
        return None if self._most is None else group_of(peer)
