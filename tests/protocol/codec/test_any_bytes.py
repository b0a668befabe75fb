"""Searches among bytes that nobody meant to be a packet: a typed error, or a value that holds.

`OPENENV_GYM_FUZZ_EXAMPLES=100000` makes each search that long.
"""

from __future__ import annotations

import os
import struct
from typing import Any
from unittest import mock

import msgpack
import numpy as np
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from openenv_gym.protocol.codec import decoding, encode_packet
from openenv_gym.protocol.codec.head import SIZED_FORMATS, Format

from .packets import decode, ext, packet, strict_equal, to_data
from .strategies import values


searching = settings(
    max_examples=int(os.environ.get("OPENENV_GYM_FUZZ_EXAMPLES", "120")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def check(data: bytes | bytearray) -> None:
    """Decode in every way; what comes out can be sent, and arrives as the same."""
    message = decode(data)
    with mock.patch.object(decoding, "_MAX_NESTED_CALLS", 0):
        assert strict_equal(decode(data), message)
    with (
        mock.patch.object(decoding, "MAX_DEPTH", -1),
        mock.patch.object(decoding, "is_harmless", lambda head: False),
    ):
        assert strict_equal(decode(data), message)
    if message is not None:
        assert strict_equal(decode(to_data(encode_packet(message))), message)


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
