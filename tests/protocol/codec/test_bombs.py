"""Packets made to cost their receiver more memory, time or stack than they are worth."""

from __future__ import annotations

import struct
import threading
import tracemalloc
from typing import Any

import msgpack
import pytest

from openenv_gym.errors import DecodeError
from openenv_gym.protocol.codec import decode_packet, encode_packet
from openenv_gym.protocol.codec.format import MAX_DEPTH

from .packets import decode, ext, nested, packet, to_data


def array32(size: int) -> bytes:
    return b"\xdd" + size.to_bytes(4, "big")


def map32(size: int) -> bytes:
    return b"\xdf" + size.to_bytes(4, "big")


def ext32(code: int, payload: bytes) -> bytes:
    return b"\xc9" + len(payload).to_bytes(4, "big") + bytes([code]) + payload


def filled(head: bytes, size: int) -> memoryview:
    """A packet whose head is as long as that, filled up with numbers."""
    return packet(head + bytes(size - len(head)))


def claims(size: int, levels: int, header: Any = array32) -> bytes:
    """Containers within each other, each of which claims as many items as the head has bytes."""
    return b"".join(header(size - 5 * (level + 1)) for level in range(levels))


def claims_in_tuples(size: int, levels: int) -> bytes:
    head = bytes(size)
    for _ in range(levels):
        head = ext32(1, array32(len(head)) + head)
    return b"\x91" + head


BOMBS = {
    "claim of 2**32 - 1 items": packet(array32(2**32 - 1)),
    "nested claims of 2**32 - 1 items": packet(array32(2**32 - 1) * 1000),
    "nested claims in a tiny head": filled(claims(60, 11), 60),
    "nested claims in a small head": filled(claims(512, 64), 512),
    "nested claims in 4 KiB": filled(claims(4096, 64), 4096),
    "nested claims in 64 KiB": filled(claims(2**16, 500), 2**16),
    "nested claims in 1 MiB": filled(claims(2**20, 64), 2**20),
    "nested claims of maps": filled(claims(2**16, 500, lambda size: map32(size // 2)), 2**16),
    "nested claims of maps, in pairs": filled(
        b"\x92" + msgpack.packb([ext(1, [1])] * 300) + claims(2**16, 60, lambda size: map32(size // 4)), 2**16
    ),
    "nested claims in tuples": packet(claims_in_tuples(2**16, 60)),
    "depth 1,000": packet(b"\x91" * 1000 + b"\0"),
    "depth 1,000,000": packet(b"\x91" * 10**6 + b"\0"),
    "depth of tuples": packet([nested(1000, lambda value: ext(1, [value]))]),
    "depth of maps as keys": packet(b"\x81" * 10**5),
    "str of 2 GiB": packet(b"\x91\xdb\x7f\xff\xff\xff"),
    "bin of 4 GiB": packet(b"\x91\xc6\xff\xff\xff\xff" + bytes(1000)),
    "ext of 2 GiB": packet(b"\x91\xc9\x7f\xff\xff\xff\x02" + bytes(1000)),
    "item of 2 GB": packet([ext(2, ["|V999999999", [1], 0])], bytes(100)),
    "items of 2 GB": packet([ext(2, ["<U500000000", [2**40], 0])], bytes(100)),
    "scalar of 2 GB": packet([ext(3, ["|V999999999", b""])]),
    "structure of 2 GB": packet([ext(3, [[["a", "|V9", [2**24]]] * 9, b""])]),
    "shape that overflows": packet([ext(2, ["<f8", [2**40, 2**40], 0])], bytes(100)),
    "shape with a zero": packet([ext(2, ["<f8", [0, 2**40], b""])]),
    "object shape with a zero": packet([ext(8, [[0, 2**40], []])]),
    "object array of nothing": packet([ext(8, [[2**40], []])]),
    "colliding complex keys": packet(
        b"\xde\x07\xd0" + b"".join(
            msgpack.packb(ext(5, struct.pack("<dd", -1000003 * n, n))) + b"\0" for n in range(2000)
        )
    ),
    "colliding big integers": packet(
        [ext(6, [ext(4, ((2**61 - 1) * (n + 2**40)).to_bytes(16, "big").lstrip(b"\0") ) for n in range(2000)])]
    ),
    "colliding floats in tuples": packet(
        [ext(7, [ext(1, [ext(5, struct.pack("<dd", -1000003 * n, n))]) for n in range(2000)])]
    ),
}  # fmt: skip


def peak_of_decoding(data: memoryview) -> tuple[list[Any] | None, int]:
    tracemalloc.start()
    try:
        message = decode_packet(data)
    except DecodeError:
        message = None
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return message, peak


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_are_refused_for_little_memory(name: str) -> None:
    message, peak = peak_of_decoding(BOMBS[name])
    assert message is None
    assert peak < 2**20 + 20 * len(BOMBS[name])


@pytest.mark.parametrize(
    ("data", "ratio"),
    [
        # Good packets, and the most memory for the fewest bytes.
        (packet(array32(2**17) + b"\x80" * 2**17), 90),
        (packet(array32(2**15) + b"\xd4\x06\x90" * 2**15), 90),
        (packet(array32(2**17) + b"\xa2\xc3\xbf" * 2**17), 40),
        (packet(array32(2**14) + b"\xc7\x0a\x02\x93\xa3|u1\x91\x01\xc4\x01\0" * 2**14), 40),
        # Its payload is not copied at every level.
        (packet([nested(60, lambda value: ext(1, [value]), b"x" * 2**21)]), 9),
        (packet([nested(62, lambda value: ext(1, [value]))]), 0),
    ],
    ids=["maps", "sets", "texts", "arrays", "tuples around bytes", "tuples"],
)
def test_memory_is_bounded(data: memoryview, ratio: int) -> None:
    message, peak = peak_of_decoding(data)
    assert message is not None
    assert peak < 2**20 + ratio * len(data)


def test_keys_that_do_not_collide_are_taken() -> None:
    grid = {(x, y): x * y for x in range(60) for y in range(60)}
    message = [grid, set(grid), frozenset(2**64 + n for n in range(1000))]
    assert decode(to_data(encode_packet(message))) == message


def test_the_deepest_value_needs_little_stack() -> None:
    """In a thread, whose stack may be small; an overflow would end the process."""
    data = packet([nested(MAX_DEPTH - 1, lambda value: ext(1, [value]))])
    results: list[Any] = []
    before = threading.stack_size(512 * 1024)
    try:
        thread = threading.Thread(target=lambda: results.append(decode(data)))
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert results == [[nested(MAX_DEPTH - 1, lambda value: (value,))]]
