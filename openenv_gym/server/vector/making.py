"""Opens vector sessions: makes sub-environments, compares their spaces, chooses the engine."""

from __future__ import annotations

import concurrent.futures
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
from gymnasium.spaces.utils import is_space_dtype_shape_equiv
from gymnasium.wrappers import TimeLimit

from openenv_gym import errors
from openenv_gym.server.carrying import as_carried
from openenv_gym.server.environment import AnyEnvironment, Environment
from openenv_gym.server.host import EnvironmentHost
from openenv_gym.server.scoring import waits_for_scores
from openenv_gym.server.vector.engine import SubEnvironments
from openenv_gym.server.vector.host import VectorHost
from openenv_gym.server.vector.native import NativeEngine, NativeFactory, NativeRequest
from openenv_gym.server.vector.options import VectorOptions
from openenv_gym.server.vector.partial import MAX_THREADS
from openenv_gym.server.vector.stepping import close_quietly
from openenv_gym.server.vector.typed import TypedSubEnvironment


__all__ = ["Traits", "make_vector_host"]


@dataclass(frozen=True)
class Traits:
    """How an environment behaves that is made with some options; see `Application`.

    Attributes:
        pinned: All calls must come from one thread.
        releases_gil: Several threads step faster than one.
        waits_elsewhere: Steps wait, so that all sub-environments are to be in theirs at once.
        max_threads: See `SubEnvironments`.
    """

    pinned: bool = False
    releases_gil: bool = False
    waits_elsewhere: bool = False
    max_threads: int = MAX_THREADS


def make_vector_host(
    make: Callable[[], AnyEnvironment],
    options: dict[str, Any],
    vector: VectorOptions,
    traits: Traits,
    native: NativeFactory | None,
    name: str,
) -> VectorHost:
    """Make the sub-environments of a session.

    Args:
        make: Makes one; called in the order of the sub-environments, or, where they wait for
            something outside, for several at once.
        options: What it is made with.
        vector: What the client asked for.
        traits: How the environment behaves.
        native: Makes a vectorised implementation.
        name: Of the environment, for errors.

    Raises:
        InvalidOptionError: The environment cannot be had in this form; `field` says why.
        Exception: Whatever `make` raises.
    """
    engine = _native_engine(options, vector, native, name)
    if engine is not None:
        return engine
    made: list[AnyEnvironment] = []
    envs: list[gymnasium.Env[Any, Any]] = []
    limit = vector.max_episode_steps
    try:
        if traits.waits_elsewhere:
            made += _make_at_once(make, vector.num_envs, traits.max_threads)
        for index in range(vector.num_envs):
            if index == len(made):
                made.append(make())
            envs.append(_as_sub_environment(made[index], vector))
        _compare_spaces(envs, different=vector.different_spaces)
        own_limit = vars(made[0]).get("openenv_time_limit")
        schemas = EnvironmentHost(made[0]).schemas()
    except BaseException:
        for each in (*envs, *made[len(envs) :]):
            close_quietly(each)
        raise
    threads = 1
    if traits.waits_elsewhere or (waits_for_scores(made[0]) and not traits.pinned):
        threads = min(traits.max_threads, len(envs))
    elif traits.releases_gil and not traits.pinned:
        threads = min(os.cpu_count() or 1, len(envs))
    return VectorHost(
        SubEnvironments(
            envs,
            autoreset_mode=vector.autoreset_mode,
            first=vector.first,
            threads=threads,
            resets_at_once=traits.waits_elsewhere,
            pinned=traits.pinned,
            max_threads=traits.max_threads,
        ),
        vector,
        single=envs[0],
        name=_class_name(made[0]),
        observation_spaces=[env.observation_space for env in envs],
        schemas=schemas,
        time_limit=own_limit,
        max_episode_steps=own_limit if vector.own_limit else limit,
    )


def _make_at_once(
    make: Callable[[], AnyEnvironment], count: int, max_threads: int
) -> list[AnyEnvironment]:
    """Make sub-environments that wait for something while they are made.

    Raises:
        Exception: What the first of them raised; by then the others are closed.
    """
    with concurrent.futures.ThreadPoolExecutor(min(count, max_threads)) as pool:
        calls = [pool.submit(make) for _ in range(count)]
    failures = [error for call in calls if (error := call.exception()) is not None]
    if failures:
        for call in calls:
            if call.exception() is None:
                close_quietly(call.result())
        raise failures[0]
    return [call.result() for call in calls]


def _as_sub_environment(
    environment: AnyEnvironment, vector: VectorOptions
) -> gymnasium.Env[Any, Any]:
    env: gymnasium.Env[Any, Any]
    if isinstance(environment, Environment):
        env = TypedSubEnvironment(environment)
    else:
        env = as_carried(environment)
    limit = vector.max_episode_steps
    if vector.own_limit:
        limit = vars(environment).get("openenv_time_limit")
    return env if limit is None else TimeLimit(env, limit)


def _class_name(environment: AnyEnvironment) -> str:
    if isinstance(environment, Environment):
        return type(environment.remote_target).__name__
    return type(environment.unwrapped).__name__


def _compare_spaces(envs: Sequence[gymnasium.Env[Any, Any]], *, different: bool) -> None:
    first = envs[0]
    for index, env in enumerate(envs[1:], 1):
        if env.action_space != first.action_space:
            raise errors.InvalidOptionError(
                "The sub-environments' action spaces are not equivalent: "
                f"single_action_space={first.action_space}, that of sub-environment {index} is "
                f"{env.action_space}.",
                field="action_space",
            )
        if different:
            if not is_space_dtype_shape_equiv(env.observation_space, first.observation_space):
                raise errors.InvalidOptionError(
                    "observation_mode='different', however the sub-environments' observation "
                    "spaces do not share a common shape and dtype: "
                    f"single_observation_space={first.observation_space}, that of sub-environment "
                    f"{index} is {env.observation_space}.",
                    field="observation_mode",
                )
        elif env.observation_space != first.observation_space:
            raise errors.InvalidOptionError(
                "observation_mode='same', however the sub-environments' observation spaces are "
                f"not equivalent: single_observation_space={first.observation_space}, that of "
                f"sub-environment {index} is {env.observation_space}.",
                field="observation_mode",
                hint="If this is intentional, use observation_mode='different' instead.",
            )


def _native_engine(
    options: dict[str, Any], vector: VectorOptions, native: NativeFactory | None, name: str
) -> VectorHost | None:
    env = None
    if native is not None:
        env = native(
            NativeRequest(
                num_envs=vector.num_envs,
                first=vector.first,
                options=options,
                autoreset_mode=vector.autoreset_mode,
                own_limit=vector.own_limit,
                max_episode_steps=vector.max_episode_steps,
                requested=vector.native,
            )
        )
    if env is None:
        if vector.native:
            raise errors.InvalidOptionError(
                f"engine='native': {name} has no vectorised implementation of its own.",
                field="engine",
                hint="Leave out engine.",
            )
        return None
    single = _Single(env)
    limit = vars(env.unwrapped).get("openenv_time_limit")
    return VectorHost(
        NativeEngine(env, autoreset_mode=vector.autoreset_mode, first=vector.first),
        vector,
        single=single,
        name=type(env.unwrapped).__name__,
        observation_spaces=[env.single_observation_space] * env.num_envs,
        max_episode_steps=limit,
        time_limit=None,
    )


class _Single:
    """One of the sub-environments of a vectorised implementation, as far as it is described."""

    def __init__(self, env: Any) -> None:
        self.action_space = env.single_action_space
        self.observation_space = env.single_observation_space
        self.render_mode = env.render_mode
        self.metadata = {k: v for k, v in env.metadata.items() if k != "autoreset_mode"}
