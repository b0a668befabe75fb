"""The bytes of a packet (docs/protocol.md, sections 2 and 3), and whose memory they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import GraphInstance

from openenv_gym.protocol.codec import (
    ALIGNMENT_BYTES,
    INLINE_LIMIT_BYTES,
    decode_packet,
    encode_packet,
)

from .packets import ext, head_of, packet, round_trip, strict_equal, to_data


@pytest.mark.parametrize(
    ("value", "form"),
    [
        ((1, "a"), ext(1, [1, "a"])),
        (np.arange(2, dtype="f4"), ext(2, ["<f4", [2], bytes(6) + b"\x80\x3f"])),
        (np.array(True), ext(2, ["|b1", [], b"\1"])),
        (np.zeros((0, 2), "u1"), ext(2, ["|u1", [0, 2], b""])),
        (np.array(["äb"]), ext(2, ["<U2", [1], "äb".encode("utf-32-le")])),
        (np.zeros(1, "M8[ns]"), ext(2, ["<M8[ns]", [1], bytes(8)])),
        (np.zeros(600, "u1"), ext(2, ["|u1", [600], 0])),
        (
            np.zeros(1, np.dtype([("a", "u1"), ("b", "<i4", (2,))], align=True)),
            ext(2, [[["a", "|u1"], ["", "|V3"], ["b", "<i4", [2]]], [1], bytes(12)]),
        ),
        (np.float32(1), ext(3, ["<f4", b"\0\0\x80\x3f"])),
        (np.bool_(False), ext(3, ["|b1", b"\0"])),
        (np.str_("a"), ext(3, ["<U1", b"a\0\0\0"])),
        (2**64, ext(4, b"\1" + bytes(8))),
        (-(2**63) - 1, ext(4, b"\xff\x7f" + b"\xff" * 7)),
        (1 + 2j, ext(5, np.array([1.0, 2.0], "<f8").tobytes())),
        ({1}, ext(6, [1])),
        (frozenset({1}), ext(7, [1])),
        (np.array([[None, 1]], object), ext(8, [[1, 2], [None, 1]])),
        (GraphInstance(1, None, None), ext(9, [1, None, None])),
        (0.5, 0.5),
        (2**64 - 1, 2**64 - 1),
        (b"x", b"x"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_form(value: Any, form: Any) -> None:
    assert strict_equal(head_of(value), form)
    assert strict_equal(round_trip(value), value)


@pytest.mark.parametrize("name", ["", "x" * 3, "x" * 11])
@pytest.mark.parametrize("sizes", [[513], [513, 514, 528], [600, 4096, 513]])
def test_buffers_are_aligned(name: str, sizes: list[int]) -> None:
    message = [name, [np.full(size, index, np.uint8) for index, size in enumerate(sizes)]]
    data = to_data(encode_packet(message))
    size = 4 + int.from_bytes(data[:4], "little")
    for index, length in enumerate(sizes):
        start = size + -size % ALIGNMENT_BYTES
        assert not any(data[size:start])
        assert bytes(data[start : start + length]) == bytes([index]) * length
        size = start + length
    assert len(data) == size
    assert strict_equal(decode_packet(data), message)
    padded = memoryview(bytearray(data) + bytes(-size % ALIGNMENT_BYTES))
    assert strict_equal(decode_packet(padded), message)


def test_buffers_are_numbered_in_the_order_of_the_head() -> None:
    arrays = [np.full(600, index, np.int16) for index in range(6)]
    value = [
        arrays[0],
        (arrays[1], {"a": (arrays[2],)}),
        np.fromiter(arrays[3:5], object, 2),
        arrays[5],
    ]
    assert strict_equal(round_trip(value), value)


def test_other_writers_may_use_longer_forms() -> None:
    head = b"\xdd\0\0\0\x05" + b"\xda\0\x01a" + b"\xd3" + bytes(7) + b"\x01" + b"\xca\x3f\x80\0\0"
    head += b"\xdf\0\0\0\x01\xc0\xc2" + b"\xc9\0\0\0\x05\x01\xdd\0\0\0\0"
    for filler in (b"", b"\xdb\0\0\x10\0" + b"x" * 4096):
        data = packet(head[:4] + bytes([5 + bool(filler)]) + head[5:] + filler)
        assert strict_equal(decode_packet(data)[:5], ["a", 1, 1.0, {None: False}, ()])


# -- copies -----------------------------------------------------------------------------------


def test_large_arrays_are_not_copied() -> None:
    frame = np.arange(210 * 160 * 3, dtype=np.uint8).reshape(210, 160, 3)
    parts = encode_packet([frame, {"again": frame}])
    assert [np.shares_memory(np.frombuffer(part, np.uint8), frame) for part in parts] == [
        False,
        True,
        True,
    ]
    data = to_data(parts)
    first, info = decode_packet(data)
    memory = np.frombuffer(data, np.uint8)
    for array in (first, info["again"]):
        assert np.shares_memory(array, memory)
        assert array.flags.writeable and array.flags.aligned
    assert not np.shares_memory(first, info["again"])
    first[:] = 0
    assert strict_equal(info["again"], frame)


def test_read_only_arrays_can_be_sent() -> None:
    array = np.arange(1000)
    array.setflags(write=False)
    received = round_trip((array, array[:3]))
    assert strict_equal(received, (array, array[:3]))
    assert all(item.flags.writeable for item in received)


def test_small_arrays_have_memory_of_their_own() -> None:
    small, limit, above = (
        np.zeros(n, np.uint8) for n in (4, INLINE_LIMIT_BYTES, INLINE_LIMIT_BYTES + 1)
    )
    assert len(encode_packet([small, limit])) == 1
    assert len(encode_packet([above])) == 2
    data = to_data(encode_packet([small, small, limit]))
    arrays = decode_packet(data)
    for array in arrays:
        array[:] = 1  # writable
        assert not np.shares_memory(array, np.frombuffer(data, np.uint8))
    assert not np.shares_memory(arrays[0], arrays[1])
