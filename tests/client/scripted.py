"""Servers that do what a script says: its words, and where they are served."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

from websockets.http11 import Response
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from openenv_gym.client import Connection
from openenv_gym.protocol.codec import decode_packet, encode_packet
from openenv_gym.protocol.frames import MessageReader, Opcode, encode_frame
from openenv_gym.protocol.limits import Limits


Script = Callable[[socket.socket], None]


def read_head(sock: socket.socket) -> bytes:
    head = b""
    while b"\r\n\r\n" not in head:
        head += sock.recv(4096)
    return head


def upgrade(sock: socket.socket, subprotocol: str | None = "openenv-gym.v1") -> None:
    protocol = ServerProtocol(subprotocols=[Subprotocol(subprotocol)] if subprotocol else None)
    protocol.receive_data(read_head(sock))
    request = protocol.events_received()[0]
    response = protocol.accept(request)
    assert isinstance(response, Response)
    if subprotocol and "Sec-WebSocket-Protocol" not in response.headers:
        response.headers["Sec-WebSocket-Protocol"] = subprotocol
    sock.sendall(response.serialize())


def say(sock: socket.socket, *message: Any) -> None:
    sock.sendall(b"".join(encode_frame(Opcode.BINARY, encode_packet(list(message)), masked=False)))


def listen(sock: socket.socket) -> Callable[[], list[Any]]:
    """Return a function that returns the next message of the client."""
    reader = MessageReader(max_message_bytes=1 << 20, peer_masks=True)

    def hear() -> list[Any]:
        while (message := reader.next()) is None:
            reader.received(sock.recv_into(reader.buffer()))
            if reader.eof:
                raise ConnectionResetError
        return decode_packet(message.data)

    return hear


def welcome(**changes: Any) -> dict[str, Any]:
    body = {
        "version": [1, 0],
        "session": "s",
        "token": b"t" * 32,
        "epoch": 1,
        "limits": Limits().to_wire(),
        "environment": {"action_space": {}, "observation_space": {}},
    }
    return {**body, **changes}


def connect(address: Any, **kwargs: Any) -> Connection:
    return Connection(address, {}, **{"connect_timeout_s": 60.0, "timeout_s": 60.0, **kwargs})
