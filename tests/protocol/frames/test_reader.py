"""Messages read from bytes however these are cut, and whatever they are."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from openenv_gym.errors import ProtocolError
from openenv_gym.protocol.frames import MessageReader, Opcode

from .oracle import LIMIT, both_peers, feed, new_reader, parse, plain, searching, serialize


payloads = st.one_of(
    st.binary(max_size=20),
    st.sampled_from([125, 126, 127, 4000, 4090, 4096, 4097, 10000, 65535, 65536, 70000]).map(
        lambda size: (bytes(range(251)) * 300)[:size]
    ),
)
fragmented = st.tuples(
    st.sampled_from([Opcode.TEXT, Opcode.BINARY]),
    st.lists(
        st.tuples(payloads, st.lists(st.binary(max_size=125), max_size=2)), min_size=1, max_size=4
    ),
)
chunk_sizes = st.lists(
    st.integers(1, 9) | st.integers(1, 5000) | st.just(2**20), min_size=1, max_size=5
)


def write(messages: list[Any], masked: bool) -> tuple[bytes, list[tuple[int, bytes]]]:
    """Frames of messages with pings between their fragments, and what is to arrive of them."""
    data = b""
    expected = []
    for opcode, fragments in messages:
        for index, (payload, pings) in enumerate(fragments):
            is_last = index == len(fragments) - 1
            data += serialize(0 if index else opcode, payload, masked=masked, fin=is_last)
            if not is_last:
                for ping in pings:
                    data += serialize(Opcode.PING, ping, masked=masked)
                    expected.append((Opcode.PING, ping))
        expected.append((opcode, b"".join(payload for payload, _ in fragments)))
    return data, expected


@both_peers
@searching
@given(messages=st.lists(fragmented, max_size=4), chunks=chunk_sizes)
@example(messages=[(Opcode.BINARY, [(bytes(4096 - 8), [])])] * 2, chunks=[2**20])
def test_messages_arrive_however_they_are_cut(
    masked: bool, messages: list[Any], chunks: list[int]
) -> None:
    data, expected = write(messages, masked)
    reader = new_reader(masked)
    assert not reader.mid_frame
    found = feed(reader, data, chunks)
    assert plain(found) == expected
    assert not reader.mid_frame and not reader.eof
    memories = [np.frombuffer(message.data, np.uint8) for message in found]
    for index, memory in enumerate(memories):
        memory[:] = 0  # writable
        assert not any(np.shares_memory(memory, other) for other in memories[:index])
    assert plain(feed(reader, data, chunks)) == expected


@both_peers
@searching
@given(data=st.data())
def test_damaged_frames(masked: bool, data: st.DataObject) -> None:
    sent = bytearray(write(data.draw(st.lists(fragmented, max_size=2)), masked)[0])
    for _ in range(data.draw(st.integers(0, 3))):
        position = data.draw(st.integers(0, min(len(sent), 200)))
        if data.draw(st.booleans()):
            sent[position : position + 1] = bytes([data.draw(st.integers(0, 255))])
        else:
            sent[position:position] = data.draw(st.binary(max_size=12))
    compare(bytes(sent), masked, data.draw(chunk_sizes))


@both_peers
@searching
@given(data=st.binary(max_size=60), chunks=chunk_sizes)
@example(data=b"\x82\x7e\x00\x05aaaaa", chunks=[1])
@example(data=b"\x82\x7f" + b"\xff" * 8, chunks=[1])
def test_any_bytes(masked: bool, data: bytes, chunks: list[int]) -> None:
    compare(data, masked, chunks)


def compare(data: bytes, masked: bool, chunks: list[int]) -> None:
    """The reader finds what `websockets` finds, or an error."""
    expected = []
    fragments: list[Any] = []
    parsed, has_error = parse(data, masked=masked)
    for frame in parsed:
        if frame.opcode >= Opcode.CLOSE:
            expected.append((frame.opcode, bytes(frame.data)))
            continue
        if (frame.opcode == Opcode.CONTINUATION) != bool(fragments):
            has_error = True
            break
        fragments.append(frame)
        if sum(len(fragment.data) for fragment in fragments) > LIMIT:
            has_error = True
            break
        if frame.fin:
            whole = b"".join(bytes(fragment.data) for fragment in fragments)
            expected.append((fragments[0].opcode, whole))
            fragments = []

    reader = new_reader(masked)
    found: list[tuple[int, bytes]] = []
    try:
        for piece in (data[i : i + 100] for i in range(0, len(data), 100)):
            for message in feed_each(reader, piece, chunks):
                found.append((message.opcode, bytes(message.data)))
    except ProtocolError as error:
        # Found earlier than `websockets` finds it, or a size in more bytes than it needs.
        assert found == expected[: len(found)]
        with pytest.raises(type(error)) as again:
            reader.next()
        assert again.value is error
        assert len(reader.buffer()) > 0
    else:
        assert found == expected
        if has_error:  # `websockets` finds it after two bytes of a header already
            with pytest.raises(ProtocolError):
                feed(reader, bytes(8))


def feed_each(reader: MessageReader, data: bytes, chunks: list[int]) -> Any:
    """Like `feed`, but gives each message when it is there."""
    view = memoryview(data)
    turn = 0
    while view:
        buffer = reader.buffer()
        n = min(len(buffer), len(view), chunks[turn % len(chunks)])
        buffer[:n] = view[:n]
        view = view[n:]
        turn += 1
        reader.received(n)
        while (message := reader.next()) is not None:
            yield message


@both_peers
def test_a_large_payload_is_received_in_place(masked: bool) -> None:
    payload = os.urandom(100_000)
    data = serialize(Opcode.BINARY, payload, masked=masked) + serialize(9, b"ping", masked=masked)
    reader = new_reader(masked)
    first = reader.buffer()
    assert len(first) <= 4096
    first[:] = data[: len(first)]
    reader.received(len(first))
    assert reader.next() is None
    assert reader.mid_frame
    rest = reader.buffer()
    assert len(rest) == len(data) - len(first) - (10 if masked else 6)  # nothing of the ping
    middle = len(rest) // 2
    rest[:middle] = data[len(first) : len(first) + middle]
    reader.received(middle)
    assert reader.next() is None
    assert len(reader.buffer()) == len(rest) - middle
    reader.buffer()[:] = data[len(first) + middle : len(first) + len(rest)]
    reader.received(len(rest) - middle)
    message = reader.next()
    assert message is not None and bytes(message.data) == payload
    assert np.shares_memory(np.frombuffer(rest, np.uint8), np.frombuffer(message.data, np.uint8))
    assert reader.next() is None
    assert not reader.mid_frame
    assert plain(feed(reader, data[len(first) + len(rest) :])) == [(Opcode.PING, b"ping")]


@pytest.mark.parametrize("size", [0, 10, 4095, 4096, 4097, 20_000])
def test_leftover_of_the_handshake(size: int) -> None:
    data = serialize(Opcode.BINARY, bytes(size), masked=True) + serialize(9, b"x", masked=True)
    for taken in (0, 1, size // 2, size, len(data)):
        reader = new_reader(True)
        reader.attach(data[:taken])
        assert len(reader.buffer()) > 0
        found = plain(feed(reader, data[taken:]))
        assert found == [(Opcode.BINARY, bytes(size)), (Opcode.PING, b"x")]
        assert not reader.mid_frame


def test_end_of_stream() -> None:
    reader = new_reader(False)
    assert feed(reader, b"\x82\x05ab") == []
    reader.received(0)
    assert reader.eof and reader.mid_frame
    assert reader.next() is None
    reader = new_reader(False)
    feed(reader, serialize(Opcode.TEXT, b"a", masked=False, fin=False))
    assert reader.mid_frame and not reader.eof
