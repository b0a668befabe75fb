"""What a server says of the agents of a session (docs/protocol.md, section 4.8)."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import gymnasium

from openenv_gym import errors
from openenv_gym.client import Connection
from openenv_gym.spaces import space_from_data


__all__ = ["AgentSpaces", "check_session"]


def check_session(connection: Connection, api: str) -> dict[str, Any]:
    """Return the map ``multi_agent`` of WELCOME.

    Raises:
        VersionMismatchError: The server does not know multi-agent sessions.
        ProtocolError: It says nothing sensible about them.
    """
    many = connection.environment.get("multi_agent")
    if many is None:
        raise errors.VersionMismatchError(
            f"The server at {connection.address} knows no multi-agent sessions.",
            hint="Install a newer openenv-gym there.",
        )
    possible = many.get("possible_agents")
    if (
        many.get("api") != api
        or not isinstance(many.get("spaces"), dict)
        or not isinstance(possible, (list, type(None)))
    ):
        raise errors.ProtocolError(
            f"The server at {connection.address} answered multi_agent={many!r:.120}, expected "
            f"api {api!r}, possible_agents and spaces."
        )
    return dict(many)


class AgentSpaces:
    """Spaces by agent; those of an agent that comes later are told when it does.

    Attributes:
        observation: Observation spaces; that of an agent stays the same object.
        action: Action spaces, likewise.
    """

    def __init__(self, described: Any) -> None:
        self.observation: dict[Hashable, gymnasium.Space[Any]] = {}
        self.action: dict[Hashable, gymnasium.Space[Any]] = {}
        self.update(described)

    def update(self, described: Any) -> None:
        """Take what a server says of further agents.

        Raises:
            ProtocolError: It is no map of pairs.
            SpaceError: One of them is no space.
        """
        try:
            read = [(agent, *_pair(spaces)) for agent, spaces in described.items()]
        except (AttributeError, TypeError, ValueError):
            raise errors.ProtocolError(
                f"Expected spaces by agent, got {described!r:.80}.", field="spaces"
            ) from None
        for agent, observation, action in read:
            for known, data in ((self.observation, observation), (self.action, action)):
                space = space_from_data(data)
                if known.get(agent) != space:  # otherwise it stays the same object
                    known[agent] = space


def _pair(spaces: Any) -> tuple[Any, Any]:
    observation, action = spaces
    return observation, action
