"""What a client asks for when it opens a multi-agent session (docs/protocol.md, section 4.8)."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from openenv_gym.errors import InvalidOptionError, ProtocolError


__all__ = [
    "AEC",
    "PARALLEL",
    "SEAT",
    "MultiAgentOptions",
    "SeatOptions",
    "read_multi_agent_options",
]

AEC, PARALLEL, SEAT = "aec", "parallel", "seat"
_APIS = (AEC, PARALLEL, SEAT)
_NAME_LENGTHS = range(1, 201)
_TICKET_LENGTHS = range(16, 201)  # a shorter one could be guessed
_MAX_S = 3600.0


@dataclass(frozen=True)
class SeatOptions:
    """One agent's place in a shared game.

    Attributes:
        game: Name of the game.
        ticket: Secret that its players share.
        agent: Which agent is played.
        turn_s: How long an agent may take to act.
        join_s: How long a reset waits for the others.
    """

    game: str
    ticket: str
    agent: Hashable
    turn_s: float = 60.0
    join_s: float = 60.0


@dataclass(frozen=True)
class MultiAgentOptions:
    """The map ``multi_agent`` of HELLO.

    Attributes:
        api: ``"aec"``, ``"parallel"`` or ``"seat"``.
        num_envs: Environments that are moved together; None: a single one.
        seat: With ``"seat"``, which one.
    """

    api: str
    num_envs: int | None = None
    seat: SeatOptions | None = None


def read_multi_agent_options(data: Any, *, max_envs: int) -> MultiAgentOptions:
    """Check the map ``multi_agent``; keys that are not known are ignored.

    Args:
        data: What the client sent.
        max_envs: Most environments that a session may have.

    Raises:
        ProtocolError: It has the wrong form; `field` names the key.
        InvalidOptionError: A value is not taken; `field` names the key.
    """
    if not isinstance(data, dict):
        raise ProtocolError(f"Expected a map 'multi_agent', got {data!r:.40}.", field="multi_agent")
    api = data.get("api")
    if api not in _APIS:
        raise InvalidOptionError(f"api={api!r:.40}: expected one of {_APIS}.", field="api")
    num_envs = data.get("num_envs")
    if num_envs is not None:
        if type(num_envs) is not int or api != PARALLEL:
            raise ProtocolError(
                f"num_envs={num_envs!r:.40}: expected an integer, with api 'parallel' only.",
                field="num_envs",
            )
        if not 1 <= num_envs <= max_envs:
            raise InvalidOptionError(
                f"num_envs={num_envs}: a session of this server holds 1 to {max_envs}.",
                field="num_envs",
                data={"num_envs": num_envs, "max_envs": max_envs},
            )
    return MultiAgentOptions(api, num_envs, _read_seat(data) if api == SEAT else None)


def _read_seat(data: dict[Any, Any]) -> SeatOptions:
    agent = data.get("agent")
    try:
        hash(agent)
    except TypeError:
        agent = None
    if agent is None:
        raise ProtocolError("Expected the name of an agent.", field="agent")
    return SeatOptions(
        game=_text(data, "game", _NAME_LENGTHS),
        ticket=_text(data, "ticket", _TICKET_LENGTHS),
        agent=agent,
        turn_s=_seconds(data, "turn_s"),
        join_s=_seconds(data, "join_s"),
    )


def _text(data: dict[Any, Any], name: str, lengths: range) -> str:
    value = data.get(name)
    if not isinstance(value, str) or len(value) not in lengths:
        # Not the value itself: a ticket is a secret.
        raise InvalidOptionError(
            f"{name}: expected a string of {lengths[0]} to {lengths[-1]} characters.", field=name
        )
    return value


def _seconds(data: dict[Any, Any], name: str) -> float:
    value = data.get(name, 60.0)
    if type(value) not in (int, float) or not 0 < value <= _MAX_S:  # false for nan
        raise InvalidOptionError(
            f"{name}={value!r:.40}: expected seconds above 0 and up to {_MAX_S:g}.", field=name
        )
    return float(value)
