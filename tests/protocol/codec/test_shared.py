"""Packets whose buffers are in memory that both sides have mapped."""

from __future__ import annotations

import contextlib
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openenv_gym.errors import DecodeError
from openenv_gym.protocol.codec import decode_packet, encode_packet, move_buffers

from .packets import strict_equal, to_data
from .strategies import values


ELSEWHERE = 1 << 31


def moved(message: list[Any], size_bytes: int = 1 << 20) -> tuple[memoryview, memoryview]:
    """Return what is left of a packet, and the memory with its buffers."""
    memory = memoryview(bytearray(b"\xff" * size_bytes))
    parts = move_buffers(encode_packet(message), memory)
    assert parts is not None
    return to_data(parts), memory.toreadonly()


def flagged(message: list[Any]) -> memoryview:
    """Return a packet's head as if its buffers were in shared memory, wherever they are."""
    data = to_data(encode_packet(message))
    (size,) = struct.unpack_from("<I", data)
    struct.pack_into("<I", data, 0, size | ELSEWHERE)
    return data[: 4 + size]


@settings(max_examples=60, deadline=None)
@given(st.lists(values, max_size=4))
def test_round_trip(items: list[Any]) -> None:
    message = [*items, np.arange(5000), np.ones((3, 700), np.bool_), *items]
    data, memory = moved(message)
    assert len(data) < len(to_data(encode_packet(message))) - 40_000
    assert strict_equal(decode_packet(data, memory), message)


def test_small_ones_and_those_that_do_not_fit_are_left_alone() -> None:
    memory = memoryview(bytearray(100_000))
    for count in (0, 100, 100_001):
        assert move_buffers(encode_packet([np.zeros(count, np.uint8)]), memory) is None
    assert bytes(memory) == bytes(100_000)
    assert move_buffers(encode_packet([np.zeros(100_000, np.uint8)]), memory) is not None


def test_what_was_decoded_is_a_copy() -> None:
    message = [np.arange(5000), np.arange(6000.0)]
    memory = memoryview(bytearray(1 << 20))
    parts = move_buffers(encode_packet(message), memory)
    assert parts is not None
    found = decode_packet(to_data(parts), memory.toreadonly())
    memory[:] = bytes(1 << 20)
    assert strict_equal(found, message)
    found[0][:] = 1  # and can be written to


def test_the_first_array_of_its_size_lands_where_it_is_wanted() -> None:
    message = [np.arange(9000, dtype=np.int8), np.arange(5000), np.arange(5000) + 1]
    data, memory = moved(message)
    wanted = np.zeros(5000, np.int64)
    found = decode_packet(data, memory, wanted.view(np.uint8).data)
    assert strict_equal(found, message)
    assert strict_equal(wanted, message[1])
    found[1][7] = -1
    assert wanted[7] == -1
    other = np.zeros(4999, np.int64)
    assert strict_equal(decode_packet(data, memory, other.view(np.uint8).data), message)
    assert not other.any()


def test_without_memory() -> None:
    data, _ = moved([np.arange(5000)])
    with pytest.raises(DecodeError, match="shared memory, and there is none"):
        decode_packet(data)


def test_beyond_the_memory() -> None:
    data, memory = moved([np.arange(5000)])
    decode_packet(data, memory[:40_000])
    with pytest.raises(DecodeError, match="beyond the end"):
        decode_packet(data, memory[:39_999])


def test_values_are_checked() -> None:
    data, memory = moved([np.ones(20_000, np.bool_)])
    wrong = bytearray(memory)
    wrong[19_999] = 2
    with pytest.raises(DecodeError, match="boolean"):
        decode_packet(data, memoryview(wrong))


def test_bytes_behind_the_head() -> None:
    data, memory = moved([np.arange(5000)])
    longer = memoryview(bytearray(data) + b"x" * 16)
    with pytest.raises(DecodeError, match="that no array refers to"):
        decode_packet(longer, memory)


def test_a_claim_of_the_head_size() -> None:
    with pytest.raises(DecodeError, match="claims a head of"):
        decode_packet(memoryview(bytearray(b"\xff\xff\xff\xff")), memoryview(bytes(100)))


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=120), st.binary(max_size=64))
def test_any_bytes(head: bytes, content: bytes) -> None:
    data = memoryview(bytearray(struct.pack("<I", len(head) | ELSEWHERE) + head))
    with contextlib.suppress(DecodeError):
        decode_packet(data, memoryview(content))


def test_a_message_without_buffers_needs_none() -> None:
    assert decode_packet(flagged([1, "two", np.arange(3)]), memoryview(b""))[:2] == [1, "two"]
