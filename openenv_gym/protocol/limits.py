"""Numbers that both sides agree on (docs/protocol.md, section 7)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


__all__ = ["DIAL_KEY_BYTES", "PATH", "SHARED_MEMORY", "SUBPROTOCOL", "VERSION", "Limits"]

SUBPROTOCOL = "openenv-gym.v1"
VERSION = (1, 0)
PATH = "/ws"
SHARED_MEMORY = "shared_memory"  # among the features of HELLO and WELCOME
DIAL_KEY_BYTES = 32  # a connection that a server makes to its owner begins with so many


@dataclass(frozen=True)
class Limits:
    """What a server allows.

    Attributes:
        max_frame_bytes: Largest message that is taken.
        max_pipelined: Requests of a session that may be on their way at once.
        retain_bytes: Replies kept for a resume, in all; the last one is always kept.
        resume_grace_s: How long a session outlives its connection.
        idle_timeout_s: How long a session lives without a request.
        handshake_timeout_s: For the HTTP request, and again for HELLO.
    """

    max_frame_bytes: int = 64 << 20
    max_pipelined: int = 64
    retain_bytes: int = 64 << 20
    resume_grace_s: float = 60.0
    idle_timeout_s: float = 3600.0
    handshake_timeout_s: float = 10.0

    def to_wire(self) -> dict[str, Any]:
        """Return the map ``limits`` of WELCOME."""
        return asdict(self)
