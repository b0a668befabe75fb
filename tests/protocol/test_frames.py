"""Frames, with the `websockets` library's own Sans-I/O frames as the oracle."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import websockets.exceptions
import websockets.frames
from hypothesis import example, given, settings
from hypothesis import strategies as st
from websockets.streams import StreamReader

from openenv_gym.errors import FrameTooLargeError, ProtocolError
from openenv_gym.protocol import frames
from openenv_gym.protocol.frames import (
    CloseCode,
    Message,
    MessageReader,
    Opcode,
    decode_close,
    encode_close,
    encode_frame,
    frame_header,
)


LIMIT = 2**20

searching = settings(
    max_examples=int(os.environ.get("OPENENV_GYM_FUZZ_EXAMPLES", "60")), deadline=None
)
both_peers = pytest.mark.parametrize("masked", [True, False], ids=["of a client", "of a server"])


def serialize(opcode: int, data: bytes, *, masked: bool, fin: bool = True) -> bytes:
    """A frame as `websockets` writes it."""
    frame = websockets.frames.Frame(websockets.frames.Opcode(opcode), data, fin=fin)
    return frame.serialize(mask=masked, extensions=[])


def parse(data: bytes, *, masked: bool) -> tuple[list[Any], bool]:
    """The frames that `websockets` reads, and whether an error ends them."""
    reader = StreamReader()
    reader.feed_data(data)
    found = []
    while True:
        parser = websockets.frames.Frame.parse(
            reader.read_exact, mask=masked, max_size=LIMIT, extensions=[]
        )
        try:
            next(parser)
        except StopIteration as stop:
            found.append(stop.value)
        except (websockets.exceptions.ProtocolError, websockets.exceptions.PayloadTooBig):
            return found, True
        else:
            return found, False


def new_reader(masked: bool, limit: int = LIMIT) -> MessageReader:
    return MessageReader(max_message_bytes=limit, peer_masks=masked)


def feed(reader: MessageReader, data: bytes, chunks: Sequence[int] = (2**62,)) -> list[Message]:
    """What the reader makes of the data, received in pieces of these sizes, over and over."""
    messages = []
    view = memoryview(data)
    for turn in range(2**62):
        while (message := reader.next()) is not None:
            messages.append(message)
        if not view:
            return messages
        buffer = reader.buffer()
        assert len(buffer) > 0
        n = min(len(buffer), len(view), chunks[turn % len(chunks)])
        buffer[:n] = view[:n]
        view = view[n:]
        reader.received(n)
    raise AssertionError


def plain(messages: list[Message]) -> list[tuple[int, bytes]]:
    return [(message.opcode, bytes(message.data)) for message in messages]


# -- writing ----------------------------------------------------------------------------------

SIZES = [0, 1, 125, 126, 127, 4096, 65535, 65536, 70001]


@both_peers
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("opcode", [Opcode.BINARY, Opcode.TEXT, Opcode.CONTINUATION])
@pytest.mark.parametrize("fin", [True, False])
def test_header(masked: bool, size: int, opcode: Opcode, fin: bool) -> None:
    mask = b"\1\2\3\4" if masked else None
    header = frame_header(opcode, size, mask=mask, fin=fin)
    expected = serialize(opcode, bytes(size), masked=masked, fin=fin)
    assert len(header) == len(expected) - size
    ((frame,), error) = parse(header + bytes(size), masked=masked)
    assert (frame.opcode, frame.fin, len(frame.data), error) == (opcode, fin, size, False)
    if masked:
        assert header[-4:] == mask
    else:
        assert header + bytes(size) == expected


@both_peers
@pytest.mark.parametrize("size", SIZES)
def test_frames_are_read_by_websockets(masked: bool, size: int) -> None:
    payload = os.urandom(size)
    array = np.frombuffer(payload, np.uint8)
    for parts in ([payload], [payload[:5], memoryview(payload)[5:]], [array.data], [b"", payload]):
        sent = b"".join(encode_frame(Opcode.BINARY, parts, masked=masked))
        assert plain(parse(sent, masked=masked)[0]) == [(Opcode.BINARY, payload)]


def test_unmasked_parts_are_not_copied() -> None:
    array = np.arange(1000)
    part = array.view(np.uint8).data
    buffers = encode_frame(Opcode.BINARY, [b"head", part], masked=False)
    assert buffers[1:] == [b"head", part]
    assert np.shares_memory(np.frombuffer(buffers[2], np.uint8), array)


def test_masks_differ() -> None:
    assert len({encode_frame(Opcode.PING, [bytes(8)], masked=True)[0] for _ in range(20)}) == 20


def test_no_parts() -> None:
    for masked in (True, False):
        sent = b"".join(encode_frame(Opcode.PONG, [], masked=masked))
        assert plain(parse(sent, masked=masked)[0]) == [(Opcode.PONG, b"")]


# -- reading ----------------------------------------------------------------------------------

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


# -- what is refused --------------------------------------------------------------------------


def header(first: int, size: int, masked: bool) -> bytes:
    return frame_header(first, size, mask=b"abcd" if masked else None)[: 2 if size < 126 else None]


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


# -- close frames -----------------------------------------------------------------------------


@pytest.mark.parametrize("code", CloseCode)
def test_close_frames(code: CloseCode) -> None:
    for reason in ("", "because", "ü" * 100, "x" * 200, "\ud800"):
        payload = encode_close(code, reason)
        assert len(payload) <= 125
        parsed = websockets.frames.Close.parse(payload)
        assert (parsed.code, parsed.reason) == decode_close(memoryview(payload))
        assert reason.startswith(parsed.reason) or parsed.reason == "?"
        assert len(payload) > 120 or len(reason) < 120


def test_a_close_frame_may_be_empty() -> None:
    assert decode_close(b"") == (1005, "")


@searching
@given(st.integers(0, 6000), st.binary(max_size=123))
@example(1005, b"")
@example(1015, b"")
@example(2999, b"")
@example(1000, b"\xff")
def test_close_codes_and_reasons(code: int, reason: bytes) -> None:
    payload = code.to_bytes(2, "big") + reason
    try:
        expected = websockets.frames.Close.parse(payload)
    except (websockets.exceptions.ProtocolError, UnicodeDecodeError):
        with pytest.raises(ProtocolError):
            decode_close(payload)
    else:
        assert decode_close(payload) == (expected.code, expected.reason)


def test_a_close_frame_of_one_byte() -> None:
    with pytest.raises(ProtocolError):
        decode_close(b"\x03")


def test_masking_without_compiled_helpers(monkeypatch: pytest.MonkeyPatch) -> None:
    from websockets.utils import apply_mask

    monkeypatch.setattr(frames, "apply_mask", apply_mask)
    for size in (0, 5, 126, 10_000):
        payload = os.urandom(size)
        sent = b"".join(encode_frame(Opcode.BINARY, [memoryview(payload)], masked=True))
        assert plain(feed(new_reader(True), sent)) == [(Opcode.BINARY, payload)]
