"""`encode_packet`: a message to the bytes to be sent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from openenv_gym.protocol.codec.conversion import Converter
from openenv_gym.protocol.codec.format import ALIGNMENT_BYTES, MAX_DEPTH, pack_head_size
from openenv_gym.protocol.codec.head import flatten_head, is_harmless
from openenv_gym.protocol.codec.unsendable import raise_encode_error


__all__ = ["Buffer", "encode_packet", "packet_size"]

Buffer: TypeAlias = "bytes | memoryview"

_PADDING = tuple(bytes(size) for size in range(ALIGNMENT_BYTES))

# Those that nobody uses at the moment, which saves a third of a small message's time. To take one
# out and to put one in are atomic, so every thread, and every call inside of another, has its own.
_idle: list[tuple[Callable[[Any], bytes], Converter]] = []

# A packer keeps its buffer, which has grown to the largest head it packed; where that was larger
# than this, it is not kept.
_KEPT_BYTES = 2**18


def encode_packet(
    message: list[Any] | tuple[Any, ...], *, names: Sequence[Any] | None = None
) -> list[Buffer]:
    """Encode a message.

    Large arrays are not copied: the result holds views of them, and what is written to an array
    before the packet is sent, is sent. Whoever keeps a packet longer joins its parts.

    Args:
        message: The message: what section 3 lists, and subclasses of that.
        names: Names of the message's items, for errors. Instead of a name there may be None (the
            index is shown), or a sequence with the names of that item's own items.

    Returns:
        The parts of the packet, one-dimensional bytes each, to be sent one after the other.

    Raises:
        EncodeError: A value cannot be sent. `field` is its path in the message.
    """
    try:
        idle = _idle.pop()
    except IndexError:
        new = Converter()
        idle = new.new_packer().pack, new
    pack, converter = idle
    try:
        head = pack(message if type(message) is list else list(message))
        size = len(head)
        # What the receiver would refuse is refused here, where it can be named. (Most heads are so
        # small that there is nothing to ask.)
        if (size > MAX_DEPTH or 0xFF in head) and not is_harmless(head):
            flatten_head(head)
        start = pack_head_size(size) + head
    except Exception as error:
        raise_encode_error(message, names, error)
    buffers = converter.buffers
    if buffers:
        converter.buffers = []
        parts = _align(start, buffers)
    else:
        parts = [start]
    if size <= _KEPT_BYTES:
        _idle.append(idle)
    return parts


def _align(start: bytes, buffers: list[memoryview]) -> list[Buffer]:
    parts: list[Buffer] = [start + _PADDING[-len(start) % ALIGNMENT_BYTES]]
    for buffer in buffers:
        padding = _PADDING[-len(parts[-1]) % ALIGNMENT_BYTES]
        if padding:
            parts.append(padding)
        parts.append(buffer)
    return parts


def packet_size(parts: Iterable[Buffer]) -> int:
    """Return the size of an encoded packet, in bytes."""
    return sum(map(len, parts))
