"""An OpenEnv server, and what is known of it."""

from __future__ import annotations

from typing import Any

from openenv_gym import errors
from openenv_gym.bridge.schemas import Schemas, fetch_schemas
from openenv_gym.bridge.session import BridgeSession, close_socket, probe
from openenv_gym.client import parse_base_url
from openenv_gym.client.web_socket import WebSocket, WebSocketOptions
from openenv_gym.models import Action, Observation
from openenv_gym.protocol.codec import encode_packet


__all__ = ["RemoteServer"]

_CLOSE_S = 1.0
_CONNECT_S = 10.0


class RemoteServer:
    """An OpenEnv server, and what is known of it; `reach` finds out whether it is one.

    Args:
        base_url: Where it is.
        token: Credential for it.
        ca_file: Certificates that are trusted in place of the system's.
        action_model: Takes the place of the model that is made of the server's schema.
        observation_model: Likewise.
        timeout_s: Limit of each request.
        wait_s: How long to wait for a place.

    Attributes:
        action_model: Model of the actions.
        observation_model: Model of the observations.

    Raises:
        InvalidOptionError: A model is none, or the URL.
    """

    action_model: type[Action]
    observation_model: type[Observation]
    _schemas: Schemas

    def __init__(
        self,
        base_url: str,
        *,
        token: str | None = None,
        ca_file: str | None = None,
        action_model: type[Action] | None = None,
        observation_model: type[Observation] | None = None,
        timeout_s: float = 120.0,
        wait_s: float = 0.0,
    ) -> None:
        _check_model("action_model", action_model, Action)
        _check_model("observation_model", observation_model, Observation)
        self.address = parse_base_url(base_url, ca_file=ca_file)
        self._options = WebSocketOptions(
            token=token,
            connect_timeout_s=min(timeout_s, _CONNECT_S),
            close_timeout_s=_CLOSE_S,
        )
        self._timeout_s = timeout_s
        self._wait_s = wait_s
        self._action_model = action_model
        self._observation_model = observation_model
        self._sockets: list[WebSocket] = []

    def reach(self) -> bool:
        """Ask the server what it is; tell whether it is an OpenEnv server.

        The connection that tells it becomes the first session: a server may have one place only.

        Returns:
            False where it speaks our protocol, for which there is no need of a bridge.

        Raises:
            SpaceError: There is no space for its actions or observations.
            OpenEnvGymError: There is no server; see `probe` and `fetch_schemas`.
        """
        socket = probe(self.address, self._options)
        if socket is None:
            return False
        self._sockets.append(socket)
        try:
            self._schemas = fetch_schemas(
                self.address,
                headers=self._options.request_headers(),
                timeout_s=self._options.connect_timeout_s,
            )
            self.action_model = self._action_model or self._schemas.action_model()
            self.observation_model = self._observation_model or self._schemas.observation_model()
        except BaseException:
            self.close()
            raise
        return True

    def close(self) -> None:
        """Close the connection of `reach` where nobody took it."""
        while self._sockets:
            close_socket(self._sockets.pop())

    def open_session(self) -> BridgeSession:
        """Open a session.

        Raises:
            CapacityError: There is no free place.
            OpenEnvGymError: There is no session to be had.
        """
        try:
            socket = self._sockets.pop()  # one of several threads gets it
        except IndexError:
            socket = None
        return BridgeSession(
            self.address,
            self._options,
            timeout_s=self._timeout_s,
            wait_s=self._wait_s,
            socket=socket,
        )

    def json_schemas(self) -> dict[str, Any]:
        """Return JSON Schemas of action, observation and state."""
        found: dict[str, Any] = {
            "action": self._schemas.action,
            "observation": self._schemas.observation,
            "state": self._schemas.state or {},
        }
        if self._action_model is not None:
            found["action"] = self._action_model.model_json_schema()
        if self._observation_model is not None:
            found["observation"] = self._observation_model.model_json_schema()
        return {name: schema if _travels(schema) else {} for name, schema in found.items()}


def _travels(schema: Any) -> bool:
    """Tell whether our protocol carries a schema: JSON has larger numbers, for instance."""
    try:
        encode_packet([schema])
    except errors.EncodeError:
        return False
    return True


def _check_model(name: str, model: Any, base: type) -> None:
    if model is not None and not (isinstance(model, type) and issubclass(model, base)):
        raise errors.InvalidOptionError(
            f"{name}={model!r:.80}: expected a subclass of openenv_gym.{base.__name__}.",
            field=name,
        )
