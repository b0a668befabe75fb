"""A request that was begun, and where the time of one went."""

from __future__ import annotations

from typing import NamedTuple

from openenv_gym.protocol.messages import Failure, Request, Result


__all__ = ["Pending", "Timing"]


class Timing(NamedTuple):
    """Where the time of one request went, in nanoseconds.

    Attributes:
        encode: Making the message, here.
        wire: Sending, receiving and waking up; everything that is not named otherwise.
        queue: Waiting in the server.
        environment: The environment itself.
        decode: Reading the message, here.
    """

    encode: int
    wire: int
    queue: int
    environment: int
    decode: int


class Pending:
    """A request that was begun: what `Connection.begin` returns and `Connection.advance` takes.

    Attributes:
        request: The request.
        landing: Where a large array of the answer goes, if anywhere.
        reply: The server's answer, as soon as it is here.
    """

    __slots__ = ("begin_ns", "data_ns", "done_ns", "encoded_ns", "landing", "reply", "request")

    def __init__(
        self, request: Request, begin_ns: int, encoded_ns: int, landing: memoryview | None = None
    ) -> None:
        self.request = request
        self.landing = landing
        self.reply: Result | Failure | None = None
        self.begin_ns = begin_ns
        self.encoded_ns = encoded_ns
        self.data_ns = self.done_ns = 0
