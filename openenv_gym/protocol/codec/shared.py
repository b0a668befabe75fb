"""Packets whose buffers are in memory that both sides have mapped (protocol, section 4.6)."""

from __future__ import annotations

from openenv_gym.protocol.codec.encoding import Buffer, packet_size
from openenv_gym.protocol.codec.format import (
    BUFFERS_ELSEWHERE,
    HEAD_START,
    pack_head_size,
    unpack_head_size,
)


__all__ = ["move_buffers"]

_WORTH_BYTES = 16 << 10
"""Smaller buffers go through a socket about as fast."""


def move_buffers(parts: list[Buffer], memory: memoryview) -> list[Buffer] | None:
    """Move the buffers of an encoded packet to shared memory.

    Args:
        parts: What `encode_packet` returned.
        memory: The memory, one-dimensional bytes; its beginning is overwritten.

    Returns:
        The parts of what is left to be sent; None where the packet has to be sent as it is, because
        its buffers are small, or do not fit.
    """
    start, *buffers = parts
    size_bytes = packet_size(buffers)
    if not _WORTH_BYTES <= size_bytes <= len(memory):
        return None
    position = 0
    for buffer in buffers:  # and the padding between them
        end = position + len(buffer)
        memory[position:end] = buffer
        position = end
    (head_size,) = unpack_head_size(start)
    return [pack_head_size(head_size | BUFFERS_ELSEWHERE) + start[HEAD_START:]]
