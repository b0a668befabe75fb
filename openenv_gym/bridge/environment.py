"""One session of an OpenEnv server as an `Environment`."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from openenv_gym import errors
from openenv_gym.bridge.describing import (
    LIST_TOOLS,
    describe_schema,
    legal_by_note,
    read_tools,
)
from openenv_gym.bridge.reading import fields_of, read_observation
from openenv_gym.bridge.remote_server import RemoteServer
from openenv_gym.models import Action, Observation, State
from openenv_gym.protocol.openenv_json import RequestType
from openenv_gym.server import Environment


__all__ = ["BridgeEnvironment"]


class BridgeEnvironment(Environment[Action, Observation, State]):
    """Resets and steps an environment on an OpenEnv server.

    Where the connection breaks, the episode is lost, which the next `step` says; the next `reset`
    opens another session.

    Args:
        server: The server.

    Raises:
        CapacityError: The server has no free place.
        OpenEnvGymError: There is no session to be had.
    """

    def __init__(self, server: RemoteServer) -> None:
        self.action_model = server.action_model
        self.observation_model = server.observation_model
        self._known = fields_of(server.observation_model)
        self._schemas = server.json_schemas()
        self._session = server.open_session()
        self._seen: dict[str, Any] = {}

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> Observation:
        """Begin an episode.

        Args:
            seed: Passed on, where it is given; what it does is the server's business.
            options: Passed on as they are, ``episode_id`` among them. OpenEnv drops what its
                environment does not take.

        Raises:
            InvalidOptionError: The server refuses the seed or an option.
            EncodeError: JSON cannot carry an option.
            ProtocolError: The server lies about its schema.
            OpenEnvGymError: See `JsonConnection.request`.
        """
        self.begin_episode(seed)
        arguments = dict(options or {})
        if seed is not None:
            arguments["seed"] = seed
        self._session.renew()
        try:
            data = self._session.request(RequestType.RESET, arguments)
        except errors.InvalidActionError as error:
            raise errors.InvalidOptionError(
                error.message, field=error.field, hint=error.hint, data=error.data
            ) from error
        return self._read(data)

    def step(self, action: Action) -> Observation:
        """Take a step.

        Raises:
            InvalidActionError: The server refuses the action.
            EncodeError: JSON cannot carry it.
            ProtocolError: The server lies about its schema.
            ConnectionLostError: The connection broke, and the episode is lost.
            OpenEnvGymError: See `JsonConnection.request`.
        """
        left_out = None if action.metadata else {"metadata"}
        try:
            sent = action.model_dump(mode="json", by_alias=True, exclude=left_out)
        except PydanticSerializationError as error:
            raise errors.EncodeError(f"JSON cannot carry the action: {error}.") from error
        return self._read(self._session.request(RequestType.STEP, sent))

    def legal_actions(self) -> list[dict[str, Any]] | None:
        """Return what the last observation lists, by the conventions of OpenEnv."""
        kind = describe_schema(self._schemas["action"], self.action_model)
        return legal_by_note(kind, self.action_model, self._seen)

    def describe_actions(self) -> dict[str, Any]:
        """Return what the server's schema and its list of tools say."""
        kind = describe_schema(self._schemas["action"], self.action_model)
        try:
            tools = read_tools(self._session.request(RequestType.MCP, dict(LIST_TOOLS)))
        except (errors.EnvironmentFailedError, errors.InvalidActionError, errors.ProtocolError):
            tools = []  # it knows nothing of tools
        return {"actions": [kind], "tools": tools}

    def _read(self, data: dict[str, Any]) -> Observation:
        observation = read_observation(data, self.observation_model, self._known)
        self._seen = data
        return observation

    @property
    def state(self) -> State:
        """The server's."""
        data = self._session.request(RequestType.STATE)
        try:
            return State.model_validate(data)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False)[0]
            field = ".".join(("state", *map(str, first["loc"])))
            raise errors.ProtocolError(
                errors.printable(f"The server sent {first['input']!r:.60} as {field}."),
                field=field,
            ) from error

    def json_schemas(self) -> dict[str, Any]:
        """Return the server's JSON Schemas, or those of the models that replace them."""
        return self._schemas

    def close(self) -> None:
        """End the session."""
        self._session.close()
