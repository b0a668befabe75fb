"""The environment of a recording, made again."""

from __future__ import annotations

import importlib
from typing import Any

import gymnasium

from openenv_gym.errors import RecordingError
from openenv_gym.recording.describing import PLACEMENT
from openenv_gym.recording.reader import RolloutFile


__all__ = ["make_again"]

_HINT = "Make it yourself: replay(file, env=...), or --make MODULE:FUNCTION."
_WRAPPERS = "gymnasium.wrappers"


def make_again(
    file: RolloutFile,
    *,
    single: bool = False,
    render_mode: str | None = None,
    **placement: Any,
) -> Any:
    """Make the environment that a recording names; where is for the caller to say.

    Nothing is imported that the file names, but wrappers of Gymnasium's.

    Args:
        file: The recording.
        single: Make one environment, also where a vector was recorded.
        render_mode: How to render; None: as it was.
        **placement: ``provider``, ``base_url`` and the like; those that are None are left out.

    Raises:
        RecordingError: The file does not say how, or names what is not registered here.
        gymnasium.error.Error: It cannot be made.
    """
    described = file.metadata.get("environment")
    if not isinstance(described, dict) or not isinstance(described.get("id"), str):
        raise RecordingError("The recorded environment has no id.", field="id", hint=_HINT)
    env_id = described["id"]
    if env_id not in gymnasium.registry:
        raise RecordingError(
            f"{env_id!r:.80} is not registered with Gymnasium here.",
            field="id",
            hint=f"Import the package that registers it, or: {_HINT}",
        )
    if described.get("unrecorded"):
        names = ", ".join(map(str, described["unrecorded"]))
        raise RecordingError(
            f"{env_id} was made with {names:.200}, which cannot be kept in a file.",
            field="options",
            hint=_HINT,
        )
    options = described.get("options")
    if not isinstance(options, dict) or not all(isinstance(key, str) for key in options):
        raise RecordingError("The options of the environment are no options.", field="options")
    options = {key: value for key, value in options.items() if key not in PLACEMENT}
    options.update({key: value for key, value in placement.items() if value is not None})
    if render_mode is not None:
        options["render_mode"] = render_mode
    elif options.get("render_mode") == "human":
        del options["render_mode"]
    limit = described.get("max_episode_steps")
    if limit is not None and limit != gymnasium.registry[env_id].max_episode_steps:
        options.setdefault("max_episode_steps", limit)
    wrappers = described.get("wrappers")
    if not isinstance(wrappers, list) or not all(isinstance(each, dict) for each in wrappers):
        raise RecordingError("The wrappers of the environment are none.", field="wrappers")
    if file.num_envs and not single:
        for wrapper in wrappers:  # they keep no arguments
            raise _not_made(wrapper)
        return _vector(file, env_id, options)
    for name in ("num_envs", "vectorization_mode", "vector_kwargs", "autoreset_mode"):
        options.pop(name, None)
    env = gymnasium.make(env_id, **options)
    try:
        return _wrapped(env, wrappers)
    except BaseException:
        env.close()
        raise


def _vector(file: RolloutFile, env_id: str, options: dict[str, Any]) -> Any:
    options["num_envs"] = file.num_envs
    vector_kwargs = options.get("vector_kwargs")
    if isinstance(vector_kwargs, dict) and isinstance(vector_kwargs.get("autoreset_mode"), str):
        mode = gymnasium.vector.AutoresetMode(vector_kwargs["autoreset_mode"])
        options["vector_kwargs"] = {**vector_kwargs, "autoreset_mode": mode}
    return gymnasium.make_vec(env_id, **options)


def _not_made(wrapper: dict[str, Any]) -> RecordingError:
    entry_point = str(wrapper.get("entry_point"))
    return RecordingError(
        f"It was recorded through the wrapper {entry_point!r:.80}, which is not made again "
        "from a file.",
        field="wrappers",
        hint=_HINT,
    )


def _wrapped(env: Any, wrappers: list[dict[str, Any]]) -> Any:
    for wrapper in wrappers:
        entry_point, kwargs = wrapper.get("entry_point"), wrapper.get("kwargs")
        module, _, name = str(entry_point).partition(":")
        known = module == _WRAPPERS or module.startswith(f"{_WRAPPERS}.")
        if not known or not isinstance(kwargs, dict):
            raise _not_made(wrapper)
        found = getattr(importlib.import_module(_WRAPPERS), name, None)
        if not isinstance(found, type) or not issubclass(found, gymnasium.Wrapper):
            raise RecordingError(f"Gymnasium has no wrapper {name!r:.80}.", field="wrappers")
        env = found(env, **kwargs)
    return env
