"""What a connection waits for, and what it needs of the server that it belongs to."""

from __future__ import annotations

from enum import Enum
from typing import Any, Protocol

from openenv_gym.protocol.limits import Limits
from openenv_gym.server.application import Application
from openenv_gym.server.figures import Figures
from openenv_gym.server.http import Router
from openenv_gym.server.http_messages import HttpRequest
from openenv_gym.server.pool import Pool
from openenv_gym.server.request_reader import BodyRoom
from openenv_gym.server.sessions import Sessions


__all__ = ["ConnectionState", "Site"]


class ConnectionState(Enum):
    """What a connection waits for."""

    HTTP = "http"
    """The head of an HTTP request."""
    HELLO = "hello"
    """The first message."""
    ANSWERING = "answering"
    """The answer to an HTTP request."""
    OPENING = "opening"
    """A place, and the environment."""
    OPEN = "open"
    """Requests."""
    CLOSING = "closing"
    """That the last bytes leave."""
    CLOSED = "closed"


class Site(Protocol):
    """What connections need of the server they belong to."""

    app: Application
    bodies: BodyRoom
    figures: Figures
    limits: Limits
    pool: Pool
    router: Router
    sessions: Sessions

    def make_dialect(self, connection: Any, request: HttpRequest) -> Any:
        """Return what is spoken on a WebSocket whose client offered no subprotocol."""

    def show_page(self, fd: int, peer: str, said: bytes) -> bool:
        """Hand a connection, and what it has said, to the page's program; False: not taken."""

    def forget(self, connection: Any) -> None:
        """Drop a connection that has closed."""
