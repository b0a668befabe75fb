"""Sub-environments made by functions, served in this process through the protocol itself."""

from __future__ import annotations

import contextlib
import itertools
import threading
import traceback
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import gymnasium
import numpy as np

from openenv_gym import errors
from openenv_gym.client import Connection
from openenv_gym.providers.thread import ThreadServer
from openenv_gym.server import Server, create_app
from openenv_gym.vector.member import Member, Opened
from openenv_gym.vector.spaces import as_mismatch


__all__ = ["serve_here"]

_TIMEOUT_S = 1e6  # `AsyncVectorEnv` waits for ever where nobody says how long


def serve_here(
    env_fns: Sequence[Callable[[], gymnasium.Env[Any, Any]]],
    *,
    autoreset_mode: str,
    observation_mode: str,
    max_concurrency: int | None,
) -> tuple[list[Member], dict[int, str]]:
    """Start a server in this process for what some functions make.

    Returns:
        The server, and where its sub-environments leave their last tracebacks.

    Raises:
        ValueError: `max_concurrency` is no positive integer, or there is no function.
        RuntimeError: The spaces of the sub-environments do not go together.
        OpenEnvGymError: The session cannot be opened, for instance because a function raised.
    """
    if max_concurrency is not None:
        if not isinstance(max_concurrency, (int, np.integer)):
            raise ValueError(
                f"`max_concurrency` must be an integer or None, got {type(max_concurrency)}."
            )
        if max_concurrency < 1:
            raise ValueError(
                f"`max_concurrency` must be a positive or None, got {max_concurrency}."
            )
    if not env_fns:
        raise errors.InvalidOptionError(
            "env_fns is empty, expected at least one function.", field="env_fns"
        )
    turns: AbstractContextManager[Any] = contextlib.nullcontext()
    if max_concurrency is not None:
        turns = threading.BoundedSemaphore(int(max_concurrency))
    tracebacks: dict[int, str] = {}
    numbers = itertools.count()

    def make() -> gymnasium.Env[Any, Any]:
        # The server makes its sub-environments one after the other, in their order.
        index = next(numbers)
        env = env_fns[index]()
        for name in ("reset", "step"):
            setattr(env, name, _Guarded(getattr(env, name), index, tracebacks, turns))
        return env

    # They are the caller's own, so none are too many.
    served = Server(create_app(make, name="env_fns"), max_envs=len(env_fns), debug=True)
    server = ThreadServer(served)
    try:
        connection = Connection(
            server.address,
            {},
            vector={
                "num_envs": len(env_fns),
                "autoreset_mode": autoreset_mode,
                "observation_mode": observation_mode,
                # What the functions return has its limit already.
                "max_episode_steps": None,
            },
            timeout_s=_TIMEOUT_S,
            connect_timeout_s=60.0,
        )
    except errors.InvalidOptionError as error:
        server.stop()
        raise as_mismatch(error, observation_mode) from error
    except BaseException:
        server.stop()
        raise
    return [Member(Opened(connection, server.stop), 0)], tracebacks


class _Guarded:
    """A method of a sub-environment that runs when it is its turn, and leaves its traceback.

    It takes the method's place on the object itself. A wrapper around the sub-environment would
    get new attributes that `set_attr` means for the sub-environment.
    """

    def __init__(
        self,
        method: Callable[..., Any],
        index: int,
        tracebacks: dict[int, str],
        turns: AbstractContextManager[Any],
    ) -> None:
        self._method = method
        self._index = index
        self._tracebacks = tracebacks
        self._turns = turns

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            with self._turns:
                return self._method(*args, **kwargs)
        except BaseException:
            self._tracebacks[self._index] = traceback.format_exc()
            raise
