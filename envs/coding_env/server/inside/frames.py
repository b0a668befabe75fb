"""What the server and an interpreter say to each other: frames of a fixed form, on a socket.

A request is a kind and a text, a reply an exit code and a text. Neither side unpickles or parses
what the other one sends.
"""

from __future__ import annotations

import struct
from collections.abc import Callable


__all__ = ["EVALUATE", "MAX_TEXT_BYTES", "REPLY", "REQUEST", "RUN", "read_exactly"]

RUN, EVALUATE = 1, 2
"""Kinds: run a program; give the canonical text of an expression's value."""

REQUEST = struct.Struct("<BI")  # kind, bytes of text
REPLY = struct.Struct("<BBI")  # exit code, whether there is a value, bytes of its text

MAX_TEXT_BYTES = 1 << 20
"""Longest text of either; a reply that claims more is no reply."""


def read_exactly(receive: Callable[[int], bytes], count: int) -> bytes:
    """Read so many bytes.

    Raises:
        EOFError: The other side hung up before.
    """
    parts = []
    while count:
        part = receive(count)
        if not part:
            raise EOFError
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
