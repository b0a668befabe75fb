"""The `websockets` library's own Sans-I/O frames, to compare with, and a reader that is fed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pytest
import websockets.exceptions
import websockets.frames
from hypothesis import settings
from websockets.streams import StreamReader

from openenv_gym.protocol.frames import Message, MessageReader


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
