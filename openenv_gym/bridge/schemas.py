"""What an OpenEnv server says of its actions and observations, and the models made of that."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from openenv_gym import errors
from openenv_gym.bridge.describing import read_described
from openenv_gym.bridge.http import http_get
from openenv_gym.client import Address
from openenv_gym.models import Action, Observation
from openenv_gym.protocol.openenv_json import load_json
from openenv_gym.spaces import model_from_schema


__all__ = ["Schemas", "fetch_schemas"]

_PATH = "/schema"
_MAX_BYTES = 4 << 20


@dataclass(frozen=True)
class Schemas:
    """The JSON Schemas of a server.

    Attributes:
        action: What ``step`` takes.
        observation: What it returns.
        reset_observation: What ``reset`` returns, where the server says so (OpenEnv 0.10 does).
        state: What ``state`` returns.
        described: What a server of this library says of its actions (``describe_actions``).
    """

    action: Mapping[str, Any]
    observation: Mapping[str, Any]
    reset_observation: Mapping[str, Any] | None = None
    state: Mapping[str, Any] | None = None
    described: Mapping[str, Any] | None = None

    def action_model(self) -> type[Action]:
        """Make the model of an action.

        Raises:
            SpaceError: There is no space for it.
        """
        return model_from_schema(self.action, Action)

    def observation_model(self) -> type[Observation]:
        """Make the model of an observation: of the fields that both reset and step give.

        Raises:
            SpaceError: There is no space for it.
        """
        observation = self.observation
        first = (self.reset_observation or {}).get("properties")
        fields = observation.get("properties")
        if isinstance(first, Mapping) and isinstance(fields, Mapping):
            shared = {name: fields[name] for name in fields if name in first}
            observation = {**observation, "properties": shared}
        return model_from_schema(observation, Observation)


def fetch_schemas(
    address: Address,
    *,
    headers: Mapping[str, str] | None = None,
    timeout_s: float = 10.0,
    ssl_context: ssl.SSLContext | None = None,
) -> Schemas:
    """Ask an OpenEnv server for its schemas (``GET /schema``).

    Args:
        address: Where it is.
        headers: Further headers of the request, a credential for instance.
        timeout_s: Limit of the whole request.
        ssl_context: For TLS; None trusts what the system trusts.

    Raises:
        ServerUnreachableError: Nothing answers in time.
        UnauthorizedError: The server wants a token, or another one.
        NotAnOpenEnvServerError: What answers is no OpenEnv server.
    """
    status, body = http_get(
        address,
        _PATH,
        headers=headers or {},
        timeout_s=timeout_s,
        max_bytes=_MAX_BYTES,
        ssl_context=ssl_context,
    )
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        raise errors.UnauthorizedError(
            f"The server at {address} wants a token, or another one.",
            hint="Set OPENENV_TOKEN, or OPENENV_TOKEN_FILE.",
        )
    if status != HTTPStatus.OK:
        raise _no_server(address, f"answered GET {_PATH} with status {status}")
    try:
        found = load_json(body)
    except errors.DecodeError as error:
        raise _no_server(address, f"answered GET {_PATH} with no JSON: {error.message}") from error
    found = found if isinstance(found, dict) else {}
    parts = {
        name: found[name]
        for name in ("action", "observation", "reset_observation", "state")
        if isinstance(found.get(name), dict)
    }
    missing = [name for name in ("action", "observation") if name not in parts]
    if missing:
        raise _no_server(address, f"tells no schema of its {' and '.join(missing)}")
    return Schemas(**parts, described=read_described(found.get("actions")))


def _no_server(address: Address, what: str) -> errors.NotAnOpenEnvServerError:
    return errors.NotAnOpenEnvServerError(
        f"The server at {address} {errors.printable(what)[:300]}.",
        hint="Is this the address of an OpenEnv server?",
    )
