"""Requests and answers of HTTP, and the routes on which they meet."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from http import HTTPStatus
from typing import Any

from openenv_gym.protocol.openenv_json import load_json


__all__ = ["Handler", "HttpRequest", "HttpResponse", "Need", "Note", "Route"]

_PARAMETER = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class HttpRequest:
    """A request.

    Attributes:
        method: ``"GET"``, ``"POST"``, ...
        path: Path, without the query.
        query: Parameters of the query; of one that is there twice, the last.
        headers: Headers by their names in lower case.
        parameters: What stands in the path where its route has ``{name}``.
        body: The body.
        head: What all but the body was read from.
    """

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    head: bytes = b""

    def json(self) -> Any:
        """Return the body as JSON says it; None where there is no body.

        Raises:
            DecodeError: It is no JSON.
        """
        return load_json(self.body) if self.body.strip() else None


@dataclass(frozen=True)
class HttpResponse:
    """An answer, after which the connection ends.

    Attributes:
        status: Its status.
        body: The body.
        content_type: What the body is; None where there is none.
        headers: Further headers.
        bare: The body is not sent: it was a HEAD that asked.
    """

    status: HTTPStatus
    body: bytes = b""
    content_type: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    bare: bool = False

    @classmethod
    def of_json(cls, data: Any, status: HTTPStatus = HTTPStatus.OK, **headers: str) -> HttpResponse:
        """Answer with JSON; `headers` have underscores for their dashes."""
        return cls(
            status,
            json.dumps(data, default=str).encode(),
            "application/json",
            {name.replace("_", "-"): value for name, value in headers.items()},
        )

    @classmethod
    def of_text(cls, status: HTTPStatus, text: str) -> HttpResponse:
        """Answer with a line for people."""
        return cls(status, f"{text}\n".encode(), "text/plain; charset=utf-8")

    def to_bytes(self) -> bytes:
        """Return what is sent."""
        lines = [f"HTTP/1.1 {self.status.value} {self.status.phrase}"]
        if self.content_type is not None:
            lines.append(f"Content-Type: {self.content_type}")
        lines += [f"Content-Length: {len(self.body)}", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        return "\r\n".join([*lines, "", ""]).encode() + (b"" if self.bare else self.body)


Handler = Callable[[HttpRequest], HttpResponse]


class Need(Enum):
    """What a route needs of the server, which may have others that run its environments."""

    NOTHING = "nothing"
    """It is answered by whoever reads it."""
    CALL = "call"
    """An environment, as long as it is answered."""
    SESSION = "session"
    """A session: one that the request names, or one that it begins and that may stay."""


@dataclass(frozen=True)
class Note:
    """What a route's page in ``/openapi.json`` says.

    Attributes:
        summary: One line.
        tag: Under which heading it stands.
        body: JSON Schema of the body; None where there is none.
        body_required: There has to be one.
        answer: JSON Schema of the answer.
        errors: Statuses of refusals, and what they mean.
    """

    summary: str = ""
    tag: str = ""
    body: Mapping[str, Any] | None = None
    body_required: bool = True
    answer: Mapping[str, Any] = field(default_factory=dict)
    errors: Mapping[HTTPStatus, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Route:
    """Where a request of a method and a path leads.

    Attributes:
        method: Method.
        path: Path; ``{name}`` stands for one part of it.
        handler: Answers; called in a thread of the pool, and may take its time.
        open: No credential is asked for.
        quick: It takes no time, and is called at once, however busy the pool is.
        need: What is needed for an answer.
        note: What is told about it; None: nothing.
    """

    method: str
    path: str
    handler: Handler
    open: bool = False
    quick: bool = False
    need: Need = Need.NOTHING
    note: Note | None = None

    def match(self, path: str) -> dict[str, str] | None:
        """Return what stands in the path for each name; None where the path is another one."""
        pattern = _PARAMETER.sub(r"(?P<\1>[^/]+)", self.path)
        found = re.fullmatch(pattern, path)
        return None if found is None else found.groupdict()
