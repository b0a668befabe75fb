"""What a recording tells about its environment: plain data, from which it can be made again."""

from __future__ import annotations

import contextlib
import datetime
import enum
import platform
from collections.abc import Collection, Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import VectorWrapper

from openenv_gym._version import __version__
from openenv_gym.env import RemoteEnv
from openenv_gym.errors import EncodeError, SpaceError
from openenv_gym.recording.format import pack
from openenv_gym.spaces import space_to_data
from openenv_gym.vector import RemoteVectorEnv


__all__ = ["PLACEMENT", "describe", "is_partial"]

PLACEMENT = frozenset(
    {
        "allow_unisolated",
        "base_url",
        "ca_file",
        "copy",
        "num_servers",
        "on_failure",
        "provider",
        "server",
        "timeout_s",
        "wait_s",
    }
)
"""Options that say where and how an environment was served; nothing in it depends on them."""

_VECTOR = frozenset({"num_envs", "vectorization_mode", "vector_kwargs"})


_WATCHING = frozenset({"HumanRendering", "RecordVideo"})
"""Gymnasium's wrappers of vectors that change nothing of what comes back."""


def describe(
    env: Any,
    *,
    vector: bool,
    user: Mapping[str, Any] | None,
    leave_out: Collection[Any] = (),
) -> dict[str, Any]:
    """Return the metadata of a recording.

    Args:
        env: The environment, or the vector environment.
        vector: Which of both.
        user: What the user adds.
        leave_out: Keys of infos that are not kept.

    Raises:
        EncodeError: What the user adds cannot be kept.
    """
    added = dict(user or {})
    pack(added, "metadata")
    single = "single_" if vector else ""
    return {
        "format": "openenv-gym rollout",
        "created": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "environment": _environment(env),
        "vector": _vector(env) if vector else None,
        "spaces": {
            "observation": _space(getattr(env, f"{single}observation_space")),
            "action": _space(getattr(env, f"{single}action_space")),
        },
        "versions": {
            "openenv_gym": __version__,
            "gymnasium": gymnasium.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
            "platform": platform.platform(),
        },
        # Others cannot be told in a file, nor could the infos that have them be kept.
        "leave_out": [key for key in leave_out if type(key) in (str, int)],
        "user": added,
    }


def is_partial(seed: Any) -> bool:
    """Tell whether seeds of the sub-environments of a vector lack some, or all."""
    listed = isinstance(seed, (list, tuple, np.ndarray))
    return listed and any(each is None for each in np.asarray(seed, object).reshape(-1))


def _environment(env: Any) -> dict[str, Any]:
    spec = None
    with contextlib.suppress(Exception):  # a copy of whatever somebody made it with
        spec = env.spec
    options = {} if spec is None else dict(spec.kwargs)
    vector_kwargs = options.get("vector_kwargs")
    if isinstance(vector_kwargs, Mapping):  # Gymnasium's own vectors: `autoreset_mode` and such
        options["vector_kwargs"] = dict(vector_kwargs)
    place = {key: options.pop(key) for key in PLACEMENT & options.keys()}
    plain, unrecorded = _plain(options)
    wrappers = [] if spec is None else list(spec.additional_wrappers)
    return {
        "id": None if spec is None else spec.id,
        "options": plain,
        "unrecorded": unrecorded,
        "max_episode_steps": None if spec is None else spec.max_episode_steps,
        "render_mode": env.render_mode,
        "wrappers": [*map(_wrapper, wrappers), *_vector_wrappers(env)],
        "placement": {**{key: repr(value)[:200] for key, value in place.items()}, **_where(env)},
    }


def _vector(env: Any) -> dict[str, Any]:
    mode = env.metadata.get("autoreset_mode")
    return {"num_envs": env.num_envs, "autoreset_mode": getattr(mode, "value", None)}


def _wrapper(spec: Any) -> dict[str, Any]:
    kwargs = spec.kwargs
    if kwargs is None:
        return {"entry_point": spec.entry_point, "kwargs": None}
    plain, unrecorded = _plain(dict(kwargs))
    return {"entry_point": spec.entry_point, "kwargs": None if unrecorded else plain}


def _vector_wrappers(env: Any) -> list[dict[str, Any]]:
    """Return the wrappers of a vector, the innermost first; its spec does not know of them."""
    found = []
    while isinstance(env, VectorWrapper):
        kind, env = type(env), env.env
        of_gymnasium = kind.__module__.startswith("gymnasium.")
        if not (of_gymnasium and kind.__name__ in _WATCHING):
            entry_point = f"{kind.__module__}:{kind.__qualname__}"
            found.append({"entry_point": entry_point, "kwargs": None})
    return found[::-1]


def _plain(options: dict[Any, Any]) -> tuple[dict[Any, Any], dict[str, str]]:
    """Return the options that can be kept, and how the others look."""
    plain, others = {}, {}
    for key, value in options.items():
        if isinstance(value, enum.Enum):
            value = value.value
        try:
            pack(value, str(key))
        except EncodeError:
            others[str(key)] = repr(value)[:200]
        else:
            plain[key] = value
    return plain, others


def _space(space: gymnasium.Space[Any]) -> dict[str, Any]:
    try:
        return space_to_data(space)
    except SpaceError as error:
        return {"type": None, "why": error.message}


def _where(env: Any) -> dict[str, Any]:
    """Return addresses of servers, with versions and images where these can be told."""
    base, addresses = env.unwrapped, []
    if isinstance(base, RemoteEnv):
        addresses = [str(base.openenv.connection.address)]
    elif isinstance(base, RemoteVectorEnv):
        addresses = base.server_addresses
    if not addresses:
        return {}
    where: dict[str, Any] = {"servers": addresses}
    images = [text.removeprefix("docker:") for text in addresses if text.startswith("docker:")]
    if images:
        where["images"] = {name: _digest(name) for name in dict.fromkeys(images)}
    return where


def _digest(image: str) -> str | None:
    """Return the id of an image that a container here was made of; None if nobody tells."""
    try:
        from openenv_gym.providers.docker.daemon import connect_daemon

        found: str = connect_daemon(sweeping=False).images.get(image).id
    except Exception:  # there is a client and a daemon that has it, or there is not
        return None
    return found
