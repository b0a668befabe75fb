"""`RemoteVectorEnv`: a `gymnasium.vector.AsyncVectorEnv` whose sub-environments are on servers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode
from gymnasium.vector.async_vector_env import AsyncState

from openenv_gym import errors
from openenv_gym.protocol.codec import encode_packet
from openenv_gym.server.vector.failures import reset_needed
from openenv_gym.vector.arguments import (
    check_observation_mode,
    read_autoreset_mode,
    read_options,
    read_seeds,
    wire_observation_mode,
)
from openenv_gym.vector.calls import VectorCalls
from openenv_gym.vector.local import serve_here
from openenv_gym.vector.member import Member
from openenv_gym.vector.partial import PartialBatch
from openenv_gym.vector.replies import check_reset, check_step


__all__ = ["RemoteVectorEnv"]

Step = tuple[
    Any,
    npt.NDArray[np.float64],
    npt.NDArray[np.bool_],
    npt.NDArray[np.bool_],
    dict[str, Any],
]


class RemoteVectorEnv(VectorCalls):
    """Sub-environments on servers, each server with a slice of them.

    ``gymnasium.make_vec("openenv/CartPole-v1", num_envs=8)`` makes one. Made from `env_fns`, they
    are served in this process, through the same protocol: for tests, and for what has no id.

    A step is one request and one reply for each server. All requests are on their way before the
    first reply is awaited, and no thread is needed for that. What `AsyncVectorEnv` does, this
    does, too, with these differences: a time limit, an exception of a sub-environment or a wrong
    number of actions leaves it usable; the caller's ``options`` are never changed; seeds may be
    NumPy's; and there are `send` and `recv` for sub-environments that take unequally long.

    Args:
        env_fns: Functions that make the sub-environments.
        shared_memory: Accepted, and without effect: observations travel through sockets. (A space
            that cannot be sent is refused.)
        copy: Each reset and step returns observations in memory of their own; False: always in
            the same arrays.
        context: Accepted, and without effect: no process is started.
        daemon: Likewise.
        worker: None: there is no worker process in which another function could run.
        observation_mode: ``"same"``: all observation spaces are equal; ``"different"``: they may
            differ in their bounds; a tuple of batched and single observation space: these.
        autoreset_mode: See `gymnasium.vector.AutoresetMode`.
        max_concurrency: So many sub-environments at most are in `reset` or `step` at a time.

    Attributes:
        observations: The last observations.

    Raises:
        InvalidOptionError: `worker` is given, or an argument has a wrong value.
        RuntimeError: The spaces of the sub-environments do not go together.
        SpaceError: A space cannot be sent.
    """

    def __init__(
        self,
        env_fns: Sequence[Callable[[], gymnasium.Env[Any, Any]]],
        shared_memory: bool = True,
        copy: bool = True,
        context: str | None = None,
        daemon: bool = True,
        worker: Any = None,
        observation_mode: str | Any = "same",
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        max_concurrency: int | None = None,
    ) -> None:
        check_observation_mode(observation_mode)
        mode = read_autoreset_mode(autoreset_mode)
        if worker is not None:
            raise errors.InvalidOptionError(
                "worker= names a function for worker processes, and there are none here.",
                field="worker",
                hint="Use gymnasium.vector.AsyncVectorEnv, or a wrapper.",
            )
        members, tracebacks = serve_here(
            env_fns,
            autoreset_mode=mode.value,
            observation_mode=wire_observation_mode(observation_mode),
            max_concurrency=max_concurrency,
        )
        self._set_up(
            members,
            copy=copy,
            observation_mode=observation_mode,
            autoreset_mode=mode,
            env_fns=env_fns,
            tracebacks=tracebacks,
            shared_memory=shared_memory,
            context=context,
            daemon=daemon,
            max_concurrency=max_concurrency,
        )

    @classmethod
    def from_members(
        cls,
        members: Sequence[Member],
        *,
        copy: bool = True,
        observation_mode: str | Any = "same",
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        on_failure: str = "raise",
    ) -> RemoteVectorEnv:
        """Make a vector environment of vector sessions that were opened; it owns them from now on.

        Args:
            members: The sessions, opened with the same `observation_mode` and `autoreset_mode`.
            copy: See the class.
            observation_mode: See the class.
            autoreset_mode: See the class.
            on_failure: What the loss of a server means: ``"raise"``: an error that names its
                sub-environments; ``"restart"``: a fresh server takes its place. Then the episodes
                of its sub-environments end: they report ``truncated=True`` and the info
                ``server_restarted`` once, and go on as the autoreset mode says, unseeded. Others
                lose nothing. Attributes set by `set_attr` are set again.

        Raises:
            InvalidOptionError: An argument has a wrong value.
            RuntimeError: The spaces of the sub-environments do not go together.
        """
        made = cls.__new__(cls)
        made._set_up(
            members,
            copy=copy,
            observation_mode=observation_mode,
            autoreset_mode=read_autoreset_mode(autoreset_mode),
            on_failure=on_failure,
        )
        return made

    # -- reset --------------------------------------------------------------------------------

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset all sub-environments, or those that ``options["reset_mask"]`` chooses.

        Args:
            seed: See `reset_async`.
            options: See `reset_async`.

        Returns:
            Observations and infos.
        """
        try:
            self.reset_async(seed, options)
            return self.reset_wait()
        except BaseException as error:
            self._after(error)
            raise

    def reset_async(self, seed: Any = None, options: dict[str, Any] | None = None) -> None:
        """Begin a reset; `reset_wait` brings its results.

        Args:
            seed: None; an integer, of Python's or NumPy's: sub-environment i gets ``seed + i``; or
                a list, tuple, range or array with one for each.
            options: For the sub-environments. ``reset_mask`` is a boolean array that chooses
                those to be reset.

        Raises:
            ClosedEnvironmentError: It is closed.
            AlreadyPendingCallError: Another call waits to be completed.
            TypeError: The seed or the mask is of a wrong type.
            ValueError: There are not as many seeds as sub-environments, or the mask is wrong.
            EncodeError: A seed or an option cannot be sent.
        """
        self._assert_is_running()
        seeds = read_seeds(seed, self.num_envs)
        self._check_free("reset_async")
        options, mask = read_options(options, self.num_envs)
        encode_packet([seeds, options])  # what cannot be sent must not be noticed halfway
        args = [
            [
                None if seeds is None else seeds[member.rows],
                options,
                None if mask is None or mask[member.rows].all() else mask[member.rows],
            ]
            for member in self._fleet.members
        ]
        self._begin("reset", self._recovery.reset_args(args, mask))
        self._state = AsyncState.WAITING_RESET

    def reset_wait(self, timeout: float | None = None) -> tuple[Any, dict[str, Any]]:
        """Return the results of `reset_async`.

        Args:
            timeout: Seconds to wait at most.

        Returns:
            Observations and infos.

        Raises:
            ClosedEnvironmentError: It is closed.
            NoAsyncCallError: There was no `reset_async`.
            multiprocessing.TimeoutError: They did not come in time.
            OpenEnvGymError: A sub-environment failed, or a server is gone.
        """
        parts = self._wait(AsyncState.WAITING_RESET, timeout, self._recovery.reset_again)
        for member, part in zip(self._fleet.members, parts, strict=True):
            check_reset(member, part, self._batches)
        observations, infos = zip(*parts, strict=True)
        return self._keep(observations), self._merge(infos)

    # -- step ---------------------------------------------------------------------------------

    def step(self, actions: Any) -> Step:
        """Take a step in all sub-environments.

        Args:
            actions: See `step_async`.

        Returns:
            Observations, rewards, terminations, truncations and infos.
        """
        try:
            self.step_async(actions)
            return self.step_wait()
        except BaseException as error:
            self._after(error)
            raise

    def step_async(self, actions: Any) -> None:
        """Begin a step; `step_wait` brings its results.

        Args:
            actions: A sample of `action_space`, or a list with one action for each.

        Raises:
            ClosedEnvironmentError: It is closed.
            AlreadyPendingCallError: Another call waits to be completed.
            TypeError: The actions are no batch.
            InvalidActionError: They are not as many as the sub-environments, or of another form.
            ResetNeededError: An episode is over, and nothing resets it; then nobody moves.
        """
        self._assert_is_running()
        self._check_free("step_async")
        actions = self._actions.check(actions, self.num_envs, "actions")
        if over := self._recovery.over():
            raise reset_needed("step", over, 0)
        members = self._fleet.members
        if len(members) == 1:
            args = [[actions]]
        else:
            args = [[self._actions.take(actions, member.rows)] for member in members]
            if not self._actions.plain:
                encode_packet(args)  # what cannot be sent must not be noticed halfway
        self._begin("step", self._recovery.step_args(args))
        self._state = AsyncState.WAITING_STEP

    def step_wait(self, timeout: float | None = None) -> Step:
        """Return the results of `step_async`.

        Args:
            timeout: Seconds to wait at most.

        Returns:
            Observations, rewards, terminations, truncations and infos.

        Raises:
            ClosedEnvironmentError: It is closed.
            NoAsyncCallError: There was no `step_async`.
            multiprocessing.TimeoutError: They did not come in time.
            OpenEnvGymError: A sub-environment failed, or a server is gone.
        """
        parts = self._wait(AsyncState.WAITING_STEP, timeout, self._recovery.step_again)
        for member, part in zip(self._fleet.members, parts, strict=True):
            check_step(member, part, self._batches)
        for index, part in enumerate(parts):
            self._recovery.note_ends(index, slice(None), part)
        if len(parts) == 1:
            observations, rewards, terminations, truncations, infos = parts[0]
            return (
                self._keep([observations]),
                rewards,
                terminations,
                truncations,
                self._merge([infos]),
            )
        columns = list(zip(*parts, strict=True))
        return (
            self._keep(columns[0]),
            np.concatenate(columns[1]),
            np.concatenate(columns[2]),
            np.concatenate(columns[3]),
            self._merge(columns[4]),
        )

    # -- partial batches ----------------------------------------------------------------------

    def send(self, actions: Any, env_ids: Any = None) -> None:
        """Begin a step in some sub-environments, each on its own; `recv` brings the results.

        Args:
            actions: A batch with an action for each of them.
            env_ids: Which ones; None for all.

        Raises:
            ClosedEnvironmentError: It is closed.
            AlreadyPendingCallError: One of them was sent and not received yet, or another call
                waits to be completed.
            InvalidActionError: The actions are not as many as the sub-environments, or of another
                form. (An action that is not in its space is refused by the server: `recv` raises
                it.)
            InvalidOptionError: `env_ids` are no numbers of sub-environments.
        """
        self._assert_is_running()
        self._check_default("send")
        self._partial.send(actions, env_ids)

    def recv(self, min_envs: int = 1, timeout: float | None = None) -> PartialBatch:
        """Return the results of sub-environments that were sent, in the order in which they end.

        Args:
            min_envs: How many at least.
            timeout: Seconds to wait at most. What came until then is there for a later call.

        Raises:
            ClosedEnvironmentError: It is closed.
            NoAsyncCallError: Nothing was sent.
            multiprocessing.TimeoutError: Fewer ended in time.
            InvalidOptionError: `min_envs` is not positive, or above the number of those sent.
            OpenEnvGymError: A sub-environment failed, or a server is gone; others are there for a
                later call.
        """
        self._assert_is_running()
        self._check_default("recv")
        return self._partial.recv(min_envs, timeout)
