"""What a client asks for when it opens a vector session (docs/protocol.md, section 4.5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gymnasium.vector import AutoresetMode

from openenv_gym.errors import InvalidOptionError, ProtocolError


__all__ = ["DEFAULT_MAX_ENVS", "VectorOptions", "read_vector_options"]

DEFAULT_MAX_ENVS = 4096
"""Sub-environments that a session may have, where a server says nothing else."""


@dataclass(frozen=True)
class VectorOptions:
    """The map ``vector`` of HELLO.

    Attributes:
        num_envs: How many sub-environments.
        first: Number of the first one within the client's vector.
        autoreset_mode: What happens after an episode's end.
        own_limit: The client said nothing about a time limit: that of the environment's own spec
            counts.
        max_episode_steps: Otherwise, the steps after which an episode is truncated; None: never.
        native: The environment's own vectorised implementation is asked for.
        different_spaces: Observation spaces may differ in their bounds.
    """

    num_envs: int
    first: int = 0
    autoreset_mode: AutoresetMode = AutoresetMode.NEXT_STEP
    own_limit: bool = True
    max_episode_steps: int | None = None
    native: bool = False
    different_spaces: bool = False


_MODES = {mode.value: mode for mode in AutoresetMode}
_ENGINES = {"default": False, "native": True}
_SPACES = {"same": False, "different": True}


def read_vector_options(data: Any, *, max_envs: int = DEFAULT_MAX_ENVS) -> VectorOptions:
    """Check the map ``vector``; keys that are not known are ignored.

    Args:
        data: What the client sent.
        max_envs: Most sub-environments that a session may have.

    Raises:
        ProtocolError: It has the wrong form; `field` names the key.
        InvalidOptionError: A value is not taken; `field` names the key.
    """
    if not isinstance(data, dict):
        raise ProtocolError(f"Expected a map 'vector', got {data!r:.40}.", field="vector")
    num_envs = _integer(data, "num_envs", None, 1)
    if num_envs > max_envs:
        raise InvalidOptionError(
            f"num_envs={num_envs}: a session of this server holds at most {max_envs} "
            "sub-environments.",
            field="num_envs",
            hint="Spread them over more sessions (num_servers=), or start the server with a "
            "higher --max-envs.",
            data={"num_envs": num_envs, "max_envs": max_envs},
        )
    limit = data.get("max_episode_steps")
    return VectorOptions(
        num_envs=num_envs,
        first=_integer(data, "first", 0, 0),
        autoreset_mode=_choice(data, "autoreset_mode", "NextStep", _MODES),
        own_limit="max_episode_steps" not in data,
        max_episode_steps=None if limit is None else _integer(data, "max_episode_steps", None, 1),
        native=_choice(data, "engine", "default", _ENGINES),
        different_spaces=_choice(data, "observation_mode", "same", _SPACES),
    )


def _integer(data: dict[Any, Any], name: str, default: int | None, least: int) -> int:
    value = data.get(name, default)
    if type(value) is not int:
        raise ProtocolError(f"Expected an integer {name}, got {value!r:.40}.", field=name)
    if not least <= value < 1 << 63:
        raise InvalidOptionError(f"{name}={value}: expected at least {least}.", field=name)
    return value


def _choice(data: dict[Any, Any], name: str, default: str, choices: dict[str, Any]) -> Any:
    value = data.get(name, default)
    if type(value) is not str:
        raise ProtocolError(f"Expected a string {name}, got {value!r:.40}.", field=name)
    if value not in choices:
        known = ", ".join(map(repr, choices))
        raise InvalidOptionError(f"{name}={value!r:.40}: expected one of {known}.", field=name)
    return choices[value]
