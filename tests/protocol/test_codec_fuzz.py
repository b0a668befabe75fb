"""Bytes that nobody meant to be a packet: a typed error, and neither time nor memory lost.

`OPENENV_GYM_FUZZ_EXAMPLES=100000` makes each search that long.
"""

from __future__ import annotations

import os
import struct
import threading
import tracemalloc
from typing import Any
from unittest import mock

import msgpack
import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from openenv_gym.errors import DecodeError
from openenv_gym.protocol import codec
from openenv_gym.protocol.codec import decode_packet, encode_packet
from openenv_gym.protocol.values import MAX_DEPTH, SIZED_FORMATS, Format

from .test_codec import ext, nested, packet, strict_equal, to_data, values


searching = settings(
    max_examples=int(os.environ.get("OPENENV_GYM_FUZZ_EXAMPLES", "120")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def decode(data: bytes | bytearray | memoryview) -> list[Any] | None:
    """The message, or None where there is none; any other exception fails the test."""
    try:
        return decode_packet(memoryview(bytearray(data)))
    except DecodeError:
        return None


def check(data: bytes | bytearray) -> None:
    """Decode in both ways; what comes out can be sent, and arrives as the same."""
    message = decode(data)
    with mock.patch.object(codec, "_MAX_UNPACKB_DEPTH", -1):
        again = decode(data)
    assert (message is None) == (again is None)
    if message is not None:
        assert strict_equal(message, again)
        assert strict_equal(decode(to_data(encode_packet(message))), message)


# -- searches ---------------------------------------------------------------------------------


@searching
@given(st.binary(max_size=200))
@example(b"\xd7\xff" + bytes(8))
def test_any_bytes(data: bytes) -> None:
    check(data)
    check(packet(data))
    check(packet(b"\x91" + data))


def _header(form: Format) -> st.SearchStrategy[bytes]:
    firsts = [byte for byte, (kind, _, _) in SIZED_FORMATS.items() if kind is form]
    sizes = st.integers(0, 5) | st.integers(0, 40) | st.sampled_from([2**16 - 1, 2**31, 2**32 - 1])

    def spell(first: int, size: int) -> bytes:
        width = SIZED_FORMATS[first][1]
        return bytes([first]) + min(size, 256**width - 1).to_bytes(width, "big")

    return st.builds(spell, st.sampled_from(firsts), sizes)


_tokens = st.one_of(
    st.integers(0, 255).map(lambda byte: bytes([byte])),
    st.integers(-(2**63), 2**64 - 1).map(msgpack.packb),
    st.floats().map(msgpack.packb),
    *map(_header, Format),
    st.builds(lambda header, code: header + bytes([code]), _header(Format.EXTENSION), st.integers(0, 10)),
    st.sampled_from(["<f4", "|b1", "|u1", "<U1", "|V0", "<M8[s]", "a"]).map(msgpack.packb),
    st.binary(max_size=5).map(msgpack.packb),
)  # fmt: skip


@searching
@given(st.lists(_tokens, max_size=30).map(b"".join), st.sampled_from([b"", b"\x91", b"\x92"]))
def test_pieces_of_messagepack_in_any_order(data: bytes, start: bytes) -> None:
    check(packet(start + data))


_wild = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 40)
    | st.sampled_from(["<f4", "|u1", "|b1", "<U1", "|S2", "|V0", "<M8[s]", "", "f0"])
    | st.binary(max_size=8)
    | st.sampled_from([2**31, 2**63, 2**64 - 1, -(2**63)]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.integers(0, 3) | st.text(max_size=1), inner, max_size=2),
        st.builds(ext, st.integers(0, 10), st.lists(inner, max_size=3) | inner),
    ),
    max_leaves=15,
)


@searching
@given(st.lists(_wild, max_size=3), st.binary(max_size=100))
def test_extensions_with_any_content(message: list[Any], rest: bytes) -> None:
    check(packet(message, rest))


@searching
@given(st.data())
def test_damaged_packets(data: st.DataObject) -> None:
    whole = bytearray(to_data(encode_packet([data.draw(values), data.draw(values)])))
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(whole)))
        kind = data.draw(st.sampled_from(["change", "insert", "remove", "cut"]))
        if kind == "change":
            whole[position : position + 1] = bytes([data.draw(st.integers(0, 255))])
        elif kind == "insert":
            whole[position:position] = data.draw(st.binary(max_size=9))
        elif kind == "remove":
            del whole[position : position + data.draw(st.integers(1, 9))]
        else:
            del whole[position:]
        if data.draw(st.booleans()) and len(whole) >= 4:
            whole[:4] = struct.pack("<I", len(whole) - 4)
    check(whole)


def test_every_truncation() -> None:
    message = [
        17,
        7,
        [np.zeros(600, np.uint8), (np.float32(1), {"a": {1, 2**70}}), 0.5],
        np.zeros(3),
    ]
    whole = bytes(to_data(encode_packet(message)))
    assert decode(whole) is not None
    for size in range(len(whole)):
        assert decode(whole[:size]) is None
        head_size = struct.unpack_from("<I", whole)[0]
        if size < head_size:
            assert decode(packet(whole[4 : 4 + size], whole[4 + head_size :])) is None


def test_every_change_of_a_byte() -> None:
    message = [1, 300, [np.arange(3, dtype="<f4"), (1, "é"), np.zeros(2, bool)], {"k": 2**70}]
    whole = to_data(encode_packet(message))
    for position in range(len(whole)):
        for byte in range(256):
            changed = bytearray(whole)
            changed[position] = byte
            decode(changed)


# -- bombs ------------------------------------------------------------------------------------


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
