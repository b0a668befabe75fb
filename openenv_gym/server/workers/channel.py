"""What a supervisor and a worker process say to each other.

A channel is a ``SOCK_SEQPACKET`` pair. Each message is a byte that tells its kind, a byte that
tells whether its data is in a file that travels along, and the data. Neither side ever waits for
the other: what cannot be sent at once is not sent.
"""

from __future__ import annotations

import os
import socket
import struct
import tempfile
from collections.abc import Sequence
from enum import Enum
from typing import BinaryIO, NamedTuple


__all__ = ["Kind", "Letter", "join_connection", "receive", "send", "split_connection"]

_INLINE_BYTES = 32 << 10
_PACKET_BYTES = 2 * _INLINE_BYTES
_MAX_DESCRIPTORS = 2
_CONNECTION = struct.Struct("<dB")  # when it asked, and the size of its name
_NO_MEMFD = not hasattr(os, "memfd_create")


class Kind(bytes, Enum):
    """What a message is about."""

    CONNECTION = b"c"
    """To a worker: a connection that has said HELLO; its socket, and what it has said."""
    REQUEST = b"h"
    """To a worker: a connection that begins with its HTTP request, for which a place is taken."""
    VISIT = b"v"
    """To a worker: likewise, for which no place is taken; it may have said nothing yet."""
    DRAIN = b"d"
    """To a worker: open no more sessions, and tell clients; the seconds that they have."""
    READY = b"r"
    """From a worker: it serves; JSON about its application."""
    LEFT = b"l"
    """From a worker: a session that it was to open has ended, or was never opened; its peer."""


class Letter(NamedTuple):
    """A message.

    Attributes:
        kind: What it is about.
        data: Its data.
        descriptors: Open files that came along; whoever receives it closes them.
    """

    kind: Kind
    data: bytes
    descriptors: list[int]


def send(
    channel: socket.socket, kind: Kind, data: bytes = b"", descriptors: Sequence[int] = ()
) -> bool:
    """Send a message; False where the other side is gone, or takes nothing now."""
    spilled = len(data) > _INLINE_BYTES  # the system takes no message of any size
    try:
        if not spilled:
            _send(channel, kind.value + b"0" + data, descriptors)
            return True
        with tempfile.TemporaryFile(buffering=0) if _NO_MEMFD else _memory_file() as file:
            file.write(data)
            _send(channel, kind.value + b"1", [*descriptors, file.fileno()])
    except OSError:
        return False
    return True


def receive(channel: socket.socket, *, trusted: bool) -> Letter | None:
    """Take a message.

    Args:
        channel: Our end.
        trusted: Take descriptors as well; those of somebody who means harm may be anything.

    Returns:
        The message; None where the other side is gone or sends nonsense.

    Raises:
        BlockingIOError: There is none.
    """
    descriptors: list[int] = []
    try:
        if trusted:
            packet, descriptors, _, _ = socket.recv_fds(channel, _PACKET_BYTES, _MAX_DESCRIPTORS)
        else:
            packet = channel.recv(_PACKET_BYTES)  # what comes along is closed by the system
    except BlockingIOError:
        raise
    except OSError:
        return None
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    try:
        kind, data = Kind(packet[:1]), packet[2:]
        if packet[1:2] == b"1":
            with open(descriptors.pop(), "rb") as file:
                file.seek(0)
                data = file.read()
    except (ValueError, IndexError, OSError):
        for descriptor in descriptors:
            os.close(descriptor)
        return None
    return Letter(kind, data, descriptors)


def join_connection(peer: str, arrived_s: float, read: bytes) -> bytes:
    """Return the data of a letter with a connection.

    Args:
        peer: Where it is from.
        arrived_s: When it asked for a session, on the monotonic clock, which is the machine's.
        read: What it has said.
    """
    name = peer.encode()[:255]
    return _CONNECTION.pack(arrived_s, len(name)) + name + read


def split_connection(data: bytes) -> tuple[str, float, bytes]:
    """Read what `join_connection` returned."""
    arrived_s, size = _CONNECTION.unpack_from(data)
    end = _CONNECTION.size + size
    return data[_CONNECTION.size : end].decode(errors="replace"), arrived_s, data[end:]


def _send(channel: socket.socket, packet: bytes, descriptors: Sequence[int]) -> None:
    socket.send_fds(channel, [packet], list(descriptors), socket.MSG_DONTWAIT)


def _memory_file() -> BinaryIO:
    return open(os.memfd_create("openenv"), "r+b", buffering=0)
