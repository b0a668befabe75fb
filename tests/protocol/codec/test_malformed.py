"""Bytes that are no packet."""

from __future__ import annotations

from typing import Any

import msgpack
import numpy as np
import pytest

from openenv_gym.errors import DecodeError
from openenv_gym.protocol.codec import (
    ALIGNMENT_BYTES,
    arrays,
    decode_packet,
    dtypes,
    encode_packet,
)

from .packets import ext, head_of, nested, packet, round_trip, strict_equal


ARRAY = ext(2, ["|u1", [600], 0])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0\0\0",
        b"\0\0\0\0",
        b"\xff\xff\xff\xff\x90",
        packet(b"\x90", b"\0" * 16),
        packet(b"\x90", b"\0"),
        packet(b"\x90\x90"),
        packet({}),
        packet(1),
        packet(b"\xc1"),
        packet(b"\x92\x01"),
        packet(b"\x91\xa1\xff"),  # no UTF-8
        packet(b"\x91\x81\x90\x01"),  # a list as a key
        packet([ext(6, [[]])]),
        packet([ext(0, b"")]),
        packet([ext(10, b"")]),
        packet([ext(127, b"")]),
        packet([msgpack.Timestamp(1)]),
        packet([msgpack.Timestamp(1, 1)]),
        packet([msgpack.Timestamp(2**40, 1)]),
        packet(b"\x91\xc9\0\0\0\x0c\xff" + bytes(12)),
        packet([ext(1, {})]),
        packet([ext(1, 1)]),
        packet([ext(1, b"")]),
        packet([ext(1, b"\x90\x90")]),
        packet([ext(1, b"\x92\x90")]),
        packet([ext(2, [])]),
        packet([ext(2, ["|u1", [1]])]),
        packet([ext(2, ["|u1", [1], b"xx"])]),
        packet([ext(2, ["|u1", [2], b"x"])]),
        packet([ext(2, ["|u1", [True], b"x"])]),
        packet([ext(2, ["|u1", [1.0], b"x"])]),
        packet([ext(2, ["|u1", [-1], b"x"])]),
        packet([ext(2, ["|u1", [-1, -1], b"x"])]),
        packet([ext(2, ["|u1", 1, b"x"])]),
        packet([ext(2, ["|u1", None, b"x"])]),
        packet([ext(2, ["|u1", [1], "x"])]),
        packet([ext(2, ["|u1", [0, 2**63 - 1], b""])]),
        packet([ext(2, ["|u1", [0, 2**63 - 1, 2**63 - 1], b""])]),
        packet([ext(2, ["|u1", [2**32, 2**32], b""])]),
        packet([ext(2, ["|u1", [2**64 - 1] * 3, b""])]),
        packet([ext(2, ["|V0", [2**62], b""])]),
        packet([ext(2, ["|u1", [1] * 33, b"x"])]),
        packet([ext(2, ["|b1", [1], b"\2"])]),
        packet([ext(2, ["|b1", [600], 0])], bytes(7), b"\2" * 600),
        packet([ext(2, ["<U1", [1], b"\0\0\x11\0"])]),
        packet([ext(2, [[["a", "<U1"]], [1], b"\0\0\x11\0"])]),
        packet([ext(2, [[["a", [["b", "|b1", [2, 2]]]]], [1], b"\0\0\0\2"])]),
        packet([ext(3, ["|b1", b"\2"])]),
        packet([ext(3, ["<U1", b"\0\0\x11\0"])]),
        packet([ext(3, ["<f4", b"\0\0\0"])]),
        packet([ext(3, ["<f4", 0])]),
        packet([ext(3, ["<f4"])]),
        packet([ext(3, {"<f4": 1, b"xxxx": 2})]),
        packet([ext(2, [ext(1, []), [1], b"x"])]),
        packet([ext(2, ["|u1", ext(1, [1]), b"x"])]),
        packet([ext(3, ["|u1", ext(9, [1, 2, 3])])]),
        packet([[ext(0, b"\1"), 1, 2]]),
        packet([ext(1, b"\xdd\xff\xff\xff\xff\0")]),
        packet([ext(4, b"")]),
        packet([ext(4, b"\0\1")]),
        packet([ext(4, b"\xff\xff")]),
        packet([ext(4, b"\1" * 1025)]),
        packet([ext(5, bytes(15))]),
        packet([ext(5, bytes(17))]),
        packet([ext(8, [[2], [1]])]),
        packet([ext(8, [[1], b"x"])]),
        packet([ext(8, [[0, 2**50], []])]),
        packet([ext(8, [[], []])]),
        packet([ext(9, [1, 2])]),
        packet([ARRAY]),
        packet([ARRAY], bytes(3), bytes(599)),
        packet([ARRAY], bytes(3), bytes(600 + 16)),
        packet([ARRAY, ARRAY], bytes(2000)),
        packet([ext(2, ["|u1", [600], 1])], bytes(2000)),
        packet([ext(2, ["|u1", [600], -1])], bytes(2000)),
        packet([ext(2, ["|u1", [600], False])], bytes(2000)),
        packet([ext(2, ["|u1", [2**40], 0])], bytes(2000)),
        packet([ext(2, ["|u1", [600], 0]), ext(2, ["|u1", [600], 2])], bytes(2000)),
    ],
    ids=lambda data: bytes(data[4:40]).hex() or "empty",
)  # fmt: skip
def test_malformed_packets(data: bytes) -> None:
    for prefix_size in (0, 600):  # small heads are checked less before they are unpacked
        whole = bytearray(data)
        if prefix_size and len(whole) > 5 and 0x90 <= whole[4] < 0x9F:
            filler = msgpack.packb("x" * prefix_size)
            size = int.from_bytes(whole[:4], "little") + len(filler)
            whole[4] += 1
            whole[5:5] = filler
            whole[:4] = size.to_bytes(4, "little")
            if size % ALIGNMENT_BYTES != (size - len(filler)) % ALIGNMENT_BYTES:
                whole += bytes(ALIGNMENT_BYTES)
        with pytest.raises(DecodeError):
            decode_packet(memoryview(whole))


BAD_DTYPES = [
    "", "f4", "<f3", "<f16", "<c32", ">f4", "=f4", "|f4", "|i4", "<i1", "<u3", "|O", "|O8", "O", "object", "|S-1",
    "|S01", "|S2147483648", "|S99999999999999999999", "<U536870912", "<U999999999", "|V9999999999", "<M8[x]",
    "<M8[0s]", "<M8[9999999999s]", "<M8[s", "<m4", "<M8[generic]", "|b1 ", "|b1\n", "\u0663", "|S\u0663", "i4,i4",
    "(2,)f4", "f4" * 1000, 1, None, {}, b"<f4", [["a"]], [["a", "<f4", [1], 1]], [[1, "<f4"]], [[b"a", "<f4"]],
    [["a", "|O"]], [["a", "<f4"], ["a", "<f4"]], [["a", "<f4", 1]], [["a", "<f4", [-1]]], [["a", "<f4", [2**62]]],
    [["a", "<f4", [2**31]]], [["a", "<f4", [1] * 33]], ["a", "<f4"], [[["t", "a"], "<f4"]], [["", "|V2147483648"]],
    [["a", "|S999999999"]] * 3, [["", "|S999999999"]] * 3, nested(17, lambda inner: [["a", inner]], "<f4"),
]  # fmt: skip


@pytest.mark.parametrize("dtype", BAD_DTYPES, ids=lambda dtype: repr(dtype)[:40])
def test_bad_dtypes(dtype: Any) -> None:
    for value in (
        ext(2, [dtype, [1], b"x" * 4]),
        ext(2, [dtype, [0], b""]),
        ext(3, [dtype, b"xxxx"]),
    ):
        with pytest.raises(DecodeError):
            decode_packet(packet([value]))


def test_caches_stay_bounded() -> None:
    for n in range(3000):
        decode_packet(packet([ext(2, [f"<U{n}", [0], b""])]))
        decode_packet(packet([ext(2, ["|u1", [0, n], b""])]))
        encode_packet([np.zeros((0, n))])
    assert len(dtypes._layouts) <= 256
    assert len(arrays._known_arrays) <= 1024
    assert len(arrays._plans) <= 1024


def test_the_shortcut_for_known_arrays_is_no_shortcut_for_bad_ones() -> None:
    good = np.arange(4, dtype=np.float32)
    for _ in range(2):
        assert strict_equal(round_trip(good), good)
    payload = head_of(good).data
    for bad in (payload[:-1], payload + b"\0"):
        with pytest.raises(DecodeError):
            decode_packet(packet([ext(2, bad)]))
    # A shape with the byte that begins a bin.
    for count in (0xC4, 0xC4C4):
        array = np.zeros((0, count), np.uint8)
        for _ in range(2):
            assert strict_equal(round_trip(array), array)


@pytest.mark.parametrize("count", [1, 7, 200])
def test_booleans_are_checked_where_their_form_is_known(count: int) -> None:
    for _ in range(2):
        decode_packet(packet([ext(2, ["|b1", [count], bytes(count)])]))
    for place in (0, count - 1):
        content = bytearray(count)
        content[place] = 2
        with pytest.raises(DecodeError, match="neither 0 nor 1"):
            decode_packet(packet([ext(2, ["|b1", [count], bytes(content)])]))
