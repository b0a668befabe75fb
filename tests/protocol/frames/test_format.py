"""Frames as they are written, and close frames in both directions."""

from __future__ import annotations

import os

import numpy as np
import pytest
import websockets.exceptions
import websockets.frames
from hypothesis import example, given
from hypothesis import strategies as st

from openenv_gym.errors import ProtocolError
from openenv_gym.protocol.frames import (
    CloseCode,
    Opcode,
    decode_close,
    encode_close,
    encode_frame,
    format,
    frame_header,
    reader,
)

from .oracle import both_peers, feed, new_reader, parse, plain, searching, serialize


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


def test_masking_without_compiled_helpers(monkeypatch: pytest.MonkeyPatch) -> None:
    from websockets.utils import apply_mask

    monkeypatch.setattr(format, "apply_mask", apply_mask)
    monkeypatch.setattr(reader, "apply_mask", apply_mask)
    for size in (0, 5, 126, 10_000):
        payload = os.urandom(size)
        sent = b"".join(encode_frame(Opcode.BINARY, [memoryview(payload)], masked=True))
        assert plain(feed(new_reader(True), sent)) == [(Opcode.BINARY, payload)]


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
