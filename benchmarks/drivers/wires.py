"""What the two servers are told, and what they must answer; `crowd` carries it.

Standard library only, but for `msgpack` where our own wire is used: each wire runs in the virtual
environment of its server.
"""

from __future__ import annotations

import json
import struct
from typing import Any, Protocol


__all__ = ["WIRES", "OpenEnvGymWire", "OpenEnvWire", "Wire", "WrongReply"]

VALUES = (0.1, 0.2, 0.3, 0.4)
"""What the trivial environment observes, here and there."""


class WrongReply(Exception):
    """A server answered something else than it must."""


class Wire(Protocol):
    """One session's conversation: first the openings, then the steps, one reply to each.

    Attributes:
        subprotocol: Of the WebSocket; none where it is empty.
        opcode: Of its messages: 1 is text, 2 binary.
    """

    subprotocol: str
    opcode: int

    def openings(self) -> list[tuple[bytes, str]]:
        """Return what is sent before the first step, each with what its reply is called."""

    def kind(self, payload: bytes) -> str:
        """Return what a reply to an opening is called."""

    def step(self, number: int) -> bytes:
        """Return the request of a session's step; its first one has the number 1."""

    def check(self, number: int, payload: bytes) -> None:
        """Check the reply to that step in all that does not vary.

        Raises:
            WrongReply: It is not what the trivial environment returns.
        """


class OpenEnvGymWire:
    """``openenv-gym.v1``: docs/protocol.md."""

    subprotocol = "openenv-gym.v1"
    opcode = 2

    def __init__(self) -> None:
        import msgpack

        self._pack = msgpack.packb
        self._unpack = msgpack.unpackb
        array = self._pack(["<f4", [len(VALUES)], struct.pack(f"<{len(VALUES)}f", *VALUES)])
        self._expected = [msgpack.ExtType(2, array), 1.0, False, False, {}]

    def openings(self) -> list[tuple[bytes, str]]:
        """Return HELLO and the reset."""
        hello = {
            "version": [1, 0],
            "agent": "benchmarks",
            "features": [],
            "max_frame_bytes": 1 << 20,
            "open": {
                "options": {"env_id": "benchmarks.trivial:benchmarks/Trivial-v0"},
                "wait_s": 0.0,
            },
        }
        reset = [1, 1, 0, "reset", [7, None]]
        return [(self._packet([0, hello]), "16"), (self._packet(reset), "17")]

    def kind(self, payload: bytes) -> str:
        """Return the type of a message."""
        return str(self._message(payload)[0])

    def step(self, number: int) -> bytes:
        """Return a REQUEST; its id is one more than the step's number, for the reset came first."""
        return self._packet([1, number + 1, number, "step", [number & 1]])

    def check(self, number: int, payload: bytes) -> None:
        """Compare a RESULT with what it must be; its timing varies."""
        message = self._message(payload)
        if message[:3] != [17, number + 1, self._expected]:
            raise WrongReply(f"step {number} was answered with {message!r:.300}")

    def _packet(self, message: list[Any]) -> bytes:
        head: bytes = self._pack(message)
        return struct.pack("<I", len(head)) + head

    def _message(self, payload: bytes) -> list[Any]:
        size = int.from_bytes(payload[:4], "little")
        message: list[Any] = self._unpack(payload[4 : 4 + size], strict_map_key=False)
        return message


class OpenEnvWire:
    """JSON of `openenv` 0.10."""

    subprotocol = ""
    opcode = 1

    def openings(self) -> list[tuple[bytes, str]]:
        """Return the reset; the session is open when the connection is."""
        return [(json.dumps({"type": "reset", "data": {}}).encode(), "observation")]

    def kind(self, payload: bytes) -> str:
        """Return the type of a message."""
        return str(json.loads(payload)["type"])

    def step(self, number: int) -> bytes:
        """Return a step's request."""
        return json.dumps({"type": "step", "data": {"action_id": number & 1}}).encode()

    def check(self, number: int, payload: bytes) -> None:
        """Compare a reply with what it must be."""
        reply = json.loads(payload)
        data = reply.get("data", {})
        if (
            reply["type"] != "observation"
            or data["observation"]["values"] != list(VALUES)
            or data["reward"] != 1.0
            or data["done"] is not False
        ):
            raise WrongReply(f"step {number} was answered with {reply!r:.300}")


WIRES: dict[str, type[OpenEnvGymWire] | type[OpenEnvWire]] = {
    "openenv-gym": OpenEnvGymWire,
    "openenv": OpenEnvWire,
}
