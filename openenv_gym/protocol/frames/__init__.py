"""WebSocket frames of a connection that is open, without any input or output (RFC 6455).

The HTTP handshake before is the `websockets` library's work. From there on every message of this
protocol is one binary frame, and what `websockets` does for each of them (copying, queues,
extensions) costs more than a step of a small environment; so frames are written and read here.

A reader hands out the place where the next bytes of the socket go::

    reader = MessageReader(max_message_bytes=64 * 2**20, peer_masks=True)
    while True:
        reader.received(sock.recv_into(reader.buffer()))
        while (message := reader.next()) is not None:
            ...

so that a large payload lands where it stays.
"""

from openenv_gym.protocol.frames.format import (
    CloseCode,
    Opcode,
    decode_close,
    encode_close,
    encode_frame,
    frame_header,
)
from openenv_gym.protocol.frames.reader import Message, MessageReader


__all__ = [
    "CloseCode",
    "Message",
    "MessageReader",
    "Opcode",
    "decode_close",
    "encode_close",
    "encode_frame",
    "frame_header",
]
