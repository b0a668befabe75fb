"""The server's half of a session, without I/O: which requests count, which replies are kept."""

from __future__ import annotations

import hmac
import secrets
from collections import deque
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from openenv_gym import errors
from openenv_gym.protocol.codec import packet_size
from openenv_gym.protocol.limits import Limits
from openenv_gym.protocol.messages import Request


__all__ = ["ReplyLog", "ServerSession"]

Parts = list[Any]  # of bytes and memoryviews: an encoded packet


class _Kept(NamedTuple):
    id: int
    parts: Parts
    size_bytes: int
    detached: bool


class ReplyLog:
    """Replies that the client has not acknowledged, bounded in bytes.

    A kept reply may still point into arrays of the environment. That is safe as long as the
    environment does not run; `detach` copies whatever is left before it does. In lockstep each
    request acknowledges the reply before it, and nothing is ever copied.
    """

    def __init__(self, retain_bytes: int) -> None:
        self._retain_bytes = retain_bytes
        self._kept: deque[_Kept] = deque()
        self._size_bytes = 0
        self._dropped = 0
        self._acknowledged = 0

    def add(self, id_: int, parts: Parts) -> None:
        """Keep a reply, dropping the oldest ones where the bound asks for it."""
        size_bytes = packet_size(parts)
        self._kept.append(_Kept(id_, parts, size_bytes, detached=False))
        self._size_bytes += size_bytes
        while self._size_bytes > self._retain_bytes and len(self._kept) > 1:
            self._dropped = self._pop().id

    def acknowledge(self, ack: int) -> None:
        """Forget the replies up to this id."""
        self._acknowledged = max(self._acknowledged, ack)
        while self._kept and self._kept[0].id <= ack:
            self._pop()

    def detach(self) -> None:
        """Copy what still points into arrays of the environment."""
        for index, kept in enumerate(self._kept):
            if not kept.detached:
                parts = [part if isinstance(part, bytes) else bytes(part) for part in kept.parts]
                self._kept[index] = kept._replace(parts=parts, detached=True)

    def after(self, ack: int) -> list[tuple[int, Parts | None]]:
        """Return the replies above `ack`, in order; None for one that was dropped."""
        first = max(ack, self._acknowledged) + 1
        lost: list[tuple[int, Parts | None]] = [
            (id_, None) for id_ in range(first, self._dropped + 1)
        ]
        return lost + [(kept.id, kept.parts) for kept in self._kept if kept.id > ack]

    @property
    def acknowledged(self) -> int:
        """Highest id that the client has acknowledged."""
        return self._acknowledged

    @property
    def size_bytes(self) -> int:
        """Bytes kept."""
        return self._size_bytes

    def __len__(self) -> int:
        return len(self._kept)

    def _pop(self) -> _Kept:
        kept = self._kept.popleft()
        self._size_bytes -= kept.size_bytes
        return kept


@dataclass
class ServerSession:
    """Name, token and epoch of a session, and what was received and answered.

    Not thread-safe: its owner holds a lock.
    """

    limits: Limits
    name: str = field(default_factory=lambda: secrets.token_hex(8))
    token: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    epoch: int = 1
    received: int = 0
    queue: deque[tuple[Request, int]] = field(default_factory=deque)
    """Requests that wait to run, each with its time of arrival in nanoseconds."""

    def __post_init__(self) -> None:
        self.replies = ReplyLog(self.limits.retain_bytes)

    def receive(self, request: Request, now_ns: int) -> bool:
        """Take a request; False for one that is here already.

        Raises:
            ProtocolError: Its id is out of order, or there are too many in flight.
        """
        self.acknowledge(request.ack)
        if request.id <= self.received:
            return False
        if request.id != self.received + 1:
            raise errors.ProtocolError(
                f"Request {request.id} came after {self.received}, expected {self.received + 1}.",
                field="id",
            )
        if len(self.queue) >= self.limits.max_pipelined:
            raise errors.ProtocolError(
                f"More than {self.limits.max_pipelined} requests are in flight.",
                field="id",
                hint="Wait for replies before sending more.",
            )
        self.received = request.id
        self.queue.append((request, now_ns))
        return True

    def acknowledge(self, ack: int) -> None:
        """Forget the replies up to this id.

        Raises:
            ProtocolError: No such request was received.
        """
        if not 0 <= ack <= self.received:
            raise errors.ProtocolError(
                f"Acknowledged request {ack}, expected one from 0 to {self.received}.", field="ack"
            )
        self.replies.acknowledge(ack)

    def cancel(self, id_: int) -> Request | None:
        """Mark a waiting request as cancelled, in its place so that replies stay in order."""
        for index, (request, now_ns) in enumerate(self.queue):
            if request.id == id_:
                self.queue[index] = (request._replace(op="cancelled", args=[], options={}), now_ns)
                return request
        return None

    def resume(self, body: dict[str, Any]) -> list[tuple[int, Parts | None]]:
        """Hand the session to a newer connection; return the replies to send again.

        Raises:
            SessionLostError: The token or the epoch is not the session's.
            ProtocolError: The map ``resume`` has the wrong form.
        """
        match body:
            case {"token": bytes(token), "epoch": int(epoch), "ack": int(ack)}:
                pass
            case _:
                raise errors.ProtocolError(
                    "Expected a map with token, epoch and ack.", field="resume"
                )
        if not hmac.compare_digest(token, self.token):
            raise lost_session(self.name)
        if epoch <= self.epoch:
            raise errors.SessionLostError(
                f"Session {self.name} was taken over by a newer connection: epoch {epoch} is not "
                f"above {self.epoch}.",
                hint="Make a new environment.",
            )
        self.acknowledge(ack)
        self.epoch = epoch
        return self.replies.after(ack)


def lost_session(name: str) -> errors.SessionLostError:
    """Return the error for a session that is unknown here, or whose token is wrong."""
    return errors.SessionLostError(
        f"The server knows no session {name[:64]!r} with this token: it ended or expired.",
        hint="Make a new environment.",
    )
