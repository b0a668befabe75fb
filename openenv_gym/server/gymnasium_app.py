"""The built-in application ``gymnasium``: hosts any Gymnasium environment id."""

from __future__ import annotations

import copy
import functools
import importlib
import threading
from collections.abc import Callable
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec, VectorizeMode
from gymnasium.vector import AutoresetMode, VectorEnv

from openenv_gym import errors
from openenv_gym.rubrics import load_rubric
from openenv_gym.server.application import Application
from openenv_gym.server.environment import AnyEnvironment
from openenv_gym.server.scored_env import ScoredEnv
from openenv_gym.server.vector.native import NativeRequest


__all__ = ["app", "make_hosted"]

_NEVER = 2**31 - 1  # steps; implementations count in 32 bits, and take no None
_DRAWS = ("render", "_render", "close")  # CarRacing's step calls the second one
_drawing = threading.RLock()
_ALE = ("ale.lives", "ale.getScreenGrayscale", "ale.getScreenRGB", "ale.getRAM")


def make_hosted(env_id: str, rubric: Any = None, **kwargs: Any) -> gymnasium.Env[Any, Any]:
    """Make a Gymnasium environment for a remote trainer.

    The trainer's own ``gymnasium.make`` adds the checker, the order check and the time limit, as
    for a local environment; wrappers that belong to the environment itself stay here. The time
    limit of the spec is told to the trainer (``openenv_time_limit``), and not applied here.

    Args:
        env_id: Any id that is registered on this machine, also ``module:id``.
        rubric: What gives each step its reward instead (`load_rubric`).
        **kwargs: As ``gymnasium.make`` takes them.

    Raises:
        InvalidOptionError: There is no such id, or no such rubric.
    """
    judge = load_rubric(rubric)
    spec = _find_spec(env_id)
    _restore_tuples(spec, kwargs)
    spec = copy.deepcopy(spec)
    spec.order_enforce = False
    env = gymnasium.make(spec, max_episode_steps=-1, disable_env_checker=True, **kwargs)
    _guard_drawing(env.unwrapped, spec)
    if judge is not None:
        env = ScoredEnv(env, judge, spec.max_episode_steps)
    vars(env)["openenv_time_limit"] = spec.max_episode_steps
    return env


def _guard_drawing(env: Any, spec: EnvSpec) -> None:
    """Have pygame draw in one thread at a time; in two, pictures of one appear in the other's."""
    if _draws_with_pygame(str(spec.entry_point)):
        for name in _DRAWS:
            if (draw := getattr(env, name, None)) is not None:
                setattr(env, name, functools.partial(_one_at_a_time, draw))


def _one_at_a_time(draw: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Draw while no other environment of this process does."""
    with _drawing:
        return draw(*args, **kwargs)


def _draws_with_pygame(entry_point: str) -> bool:
    """Tell it of those that Gymnasium ships; what others do is their own affair."""
    return entry_point.startswith("gymnasium.envs.") and ".mujoco." not in entry_point


def _find_spec(env_id: Any) -> EnvSpec:
    if not isinstance(env_id, str):
        raise errors.InvalidOptionError(
            f"Expected the id of an environment, got {env_id!r:.80}.", field="env_id"
        )
    module, _, name = env_id.rpartition(":")
    try:
        if module:
            importlib.import_module(module)
        spec = gymnasium.spec(name)
    except (gymnasium.error.Error, ImportError, SyntaxError, TypeError) as error:
        raise errors.InvalidOptionError(
            f"The server cannot find the environment {env_id!r}: {error}",
            field="env_id",
            hint="Install its package on the server, and name it as 'module:id'.",
        ) from error
    if spec.namespace == "openenv":
        raise errors.InvalidOptionError(
            f"{env_id!r} is remote itself.", field="env_id", hint="Make it directly."
        )
    return spec


def _restore_tuples(spec: EnvSpec, kwargs: dict[str, Any]) -> None:
    for name, value in spec.kwargs.items():
        if isinstance(value, tuple) and isinstance(kwargs.get(name), list):
            kwargs[name] = tuple(kwargs[name])  # it came through JSON, which has no tuples


def _native(request: NativeRequest) -> VectorEnv[Any, Any, Any] | None:
    """Make the vectorised implementation of an id, where it is asked for: it differs.

    Its sub-environments share a generator, for example, so what one of them does depends on how
    many there are.
    """
    if not request.requested:
        return None
    kwargs = dict(request.options)
    env_id = kwargs.pop("env_id", None)
    if kwargs.pop("rubric", None) is not None:
        raise errors.InvalidOptionError(
            "engine='native': a vectorised implementation has no steps that a rubric could score.",
            field="rubric",
            hint="Leave out engine.",
        )
    spec = copy.deepcopy(_find_spec(env_id))
    if spec.vector_entry_point is None:
        raise errors.InvalidOptionError(
            f"engine='native': {env_id} has no vectorised implementation of its own.",
            field="engine",
            hint="Leave out engine.",
        )
    _restore_tuples(spec, kwargs)
    if not request.own_limit:
        limit = request.max_episode_steps
        spec.max_episode_steps = _NEVER if limit is None else limit
    env: VectorEnv[Any, Any, Any] = gymnasium.make_vec(
        spec,
        num_envs=request.num_envs,
        vectorization_mode=VectorizeMode.VECTOR_ENTRY_POINT,
        **kwargs,
    )
    mode = env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
    if mode != request.autoreset_mode:
        env.close()
        raise errors.InvalidOptionError(
            f"autoreset_mode={request.autoreset_mode.value!r}: the vectorised implementation of "
            f"{env_id} has {mode.value!r} only.",
            field="autoreset_mode",
            hint="Leave out engine='native'.",
        )
    vars(env.unwrapped)["openenv_time_limit"] = _limit_in_force(request, spec)
    _guard_drawing(env.unwrapped, spec)
    return env


def _limit_in_force(request: NativeRequest, spec: EnvSpec) -> int | None:
    return spec.max_episode_steps if request.own_limit else request.max_episode_steps


def _observables(env: AnyEnvironment) -> tuple[str, ...]:
    return _ALE if hasattr(getattr(env, "unwrapped", env), "ale") else ()


def _needs_one_thread(options: dict[str, Any]) -> bool:
    """Tell whether an environment may draw with OpenGL, whose contexts belong to a thread."""
    if options.get("render_mode") is None:
        return False
    spec = gymnasium.registry.get(str(options.get("env_id")).rpartition(":")[2])
    entry_point = "" if spec is None else str(spec.entry_point)
    # Of those that Gymnasium ships, MuJoCo's alone do; of others nobody knows.
    return not _draws_with_pygame(entry_point)


app = Application(
    make_hosted,
    name="gymnasium",
    version=gymnasium.__version__,
    description="Any Gymnasium environment id",
    observables=_observables,
    needs_one_thread=_needs_one_thread,
    native=_native,
)
