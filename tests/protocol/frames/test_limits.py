"""Frames that are refused, and how much memory a peer can make a reader take."""

from __future__ import annotations

import gc
import tracemalloc

import pytest

from openenv_gym.errors import FrameTooLargeError, ProtocolError
from openenv_gym.protocol.frames import (
    Message,
    MessageReader,
    Opcode,
    encode_frame,
    frame_header,
)

from .oracle import both_peers, feed, new_reader, plain, serialize


@both_peers
@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"\xc2\x00", "reserved bits"),
        (b"\xa2\x00", "reserved bits"),
        (b"\x92\x00", "reserved bits"),
        (b"\x83\x00", "opcode 3"),
        (b"\x8f\x00", "opcode 15"),
        (b"\x80\x00", "none was begun"),
        (b"\x00\x00", "none was begun"),
        (b"\x02\x00" + b"\x82\x00", "before the last one is complete"),
        (b"\x09\x00", "control frame"),
        (b"\x89\x7e\x00\x7e", "control frame"),
        (b"\x88\x7f" + bytes(5) + b"\1\0\0", "control frame"),
        (b"\x82\x7f\x80" + bytes(7), "size"),
        (b"\x82\x7e\x00\x7d", "size"),
        (b"\x82\x7f" + bytes(6) + b"\xff\xff", "size"),
    ],
)
def test_malformed_frames(masked: bool, data: bytes, says: str) -> None:
    whole = bytearray()
    for part in data.partition(b"\x82\x00") if data.startswith(b"\x02") else (data,):
        if part:
            if masked:
                part = part[:1] + bytes([part[1] | 0x80]) + part[2:] + b"mask"
            whole += part
    for chunks in ([1], [100]):
        reader = new_reader(masked)
        with pytest.raises(ProtocolError, match=says) as raised:
            feed(reader, bytes(whole) + bytes(10), chunks)
        for _ in range(3):
            with pytest.raises(ProtocolError) as again:
                reader.next()
            assert again.value is raised.value
        reader.buffer()[:3] = b"\x82\x01a"
        reader.received(3)
        with pytest.raises(ProtocolError):
            reader.next()
        reader.received(0)
        assert reader.eof


def test_wrong_masking() -> None:
    for masked, says in ((True, "not masked"), (False, "is masked")):
        with pytest.raises(ProtocolError, match=says):
            feed(new_reader(masked), serialize(Opcode.BINARY, b"hello", masked=not masked))


@both_peers
def test_messages_of_the_largest_size_are_taken(masked: bool) -> None:
    for limit in (10, 200, 5000, 70_000):
        data = serialize(Opcode.BINARY, bytes(limit), masked=masked)
        data += serialize(Opcode.TEXT, bytes(limit - 1), masked=masked, fin=False)
        data += serialize(0, bytes(1), masked=masked)
        found = feed(new_reader(masked, limit), data)
        assert plain(found) == [(Opcode.BINARY, bytes(limit)), (Opcode.TEXT, bytes(limit))]


@both_peers
@pytest.mark.parametrize("limit", [10, 200, 5000, 70_000])
def test_larger_messages_are_refused_from_the_header(masked: bool, limit: int) -> None:
    mask = b"mask" if masked else None
    begun = serialize(Opcode.BINARY, bytes(limit // 2), masked=masked, fin=False)
    for data in (
        frame_header(Opcode.BINARY, limit + 1, mask=mask),
        begun + frame_header(0, limit + 1 - limit // 2, mask=mask),
    ):
        with pytest.raises(FrameTooLargeError) as raised:
            feed(new_reader(masked, limit), data)
        assert raised.value.data == {"size_bytes": limit + 1, "max_bytes": limit}
    with pytest.raises(FrameTooLargeError):
        feed(new_reader(masked, limit), frame_header(Opcode.BINARY, 2**63 - 1, mask=mask))


# -- memory -----------------------------------------------------------------------------------


def peak_of_feeding(reader: MessageReader, data: bytes) -> tuple[list[Message], int]:
    gc.collect()  # finalizers of what other tests have left take memory, too
    tracemalloc.start()
    try:
        return feed(reader, data), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@both_peers
def test_a_header_alone_takes_little_memory(masked: bool) -> None:
    reader = new_reader(masked, 2**26)
    mask = b"mask" if masked else None
    begin = frame_header(Opcode.BINARY, 60 * 2**20, mask=mask) + b"the payload"
    found, peak = peak_of_feeding(reader, begin)
    assert found == [] and reader.mid_frame
    assert peak < 2**20 + 20_000


@both_peers
def test_memory_follows_what_arrives(masked: bool) -> None:
    size = 5 * 2**20 + 3
    payload = (bytes(range(251)) * (size // 251 + 1))[:size]
    data = b"".join(encode_frame(Opcode.BINARY, [payload], masked=masked))
    reader = new_reader(masked, 2**26)
    (message,), peak = peak_of_feeding(reader, data)
    assert bytes(message.data) == payload
    assert peak < 1.9 * size
    # A peer that sent as much once is trusted, and its messages are not copied any more.
    (message,), peak = peak_of_feeding(reader, data)
    assert bytes(message.data) == payload
    assert peak < 1.1 * size


@both_peers
def test_a_flood_of_fragments_takes_no_more_than_its_bytes(masked: bool) -> None:
    first = serialize(Opcode.BINARY, b"", masked=masked, fin=False)
    piece = serialize(0, b"x", masked=masked, fin=False) + serialize(
        0, b"", masked=masked, fin=False
    )
    reader = new_reader(masked)
    found, peak = peak_of_feeding(reader, first + piece * 10_000)
    assert found == []
    assert peak < 50_000
    (message,) = feed(reader, serialize(0, b"!", masked=masked))
    assert plain([message]) == [(Opcode.BINARY, b"x" * 10_000 + b"!")]
