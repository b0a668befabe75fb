"""What every operation of a vector environment stands on: its servers, its state, its memory."""

from __future__ import annotations

import multiprocessing
import queue
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import gymnasium
from gymnasium import logger
from gymnasium.envs.registration import EnvSpec
from gymnasium.error import AlreadyPendingCallError, NoAsyncCallError
from gymnasium.vector import AsyncVectorEnv, AutoresetMode
from gymnasium.vector.async_vector_env import AsyncState

from openenv_gym import errors
from openenv_gym.vector.arguments import check_observation_mode
from openenv_gym.vector.batches import batches_of
from openenv_gym.vector.fleet import Fleet
from openenv_gym.vector.infos import merge_infos, with_masks
from openenv_gym.vector.landing import Landing, landing_of
from openenv_gym.vector.last import LastObservations
from openenv_gym.vector.member import Member
from openenv_gym.vector.partial import PartialSteps
from openenv_gym.vector.recovery import Recovery
from openenv_gym.vector.spaces import read_spaces


__all__ = ["VectorBase"]


_DROPPED_S = 1.0  # so long servers of an environment that nobody closed may take to end


if TYPE_CHECKING:
    _AsyncVectorEnv = AsyncVectorEnv[Any, Any]
else:
    _AsyncVectorEnv = AsyncVectorEnv  # it takes no parameters before Gymnasium 1.3


class VectorBase(_AsyncVectorEnv):
    """An `AsyncVectorEnv` with servers in the place of worker processes; see `RemoteVectorEnv`."""

    def _set_up(
        self,
        members: Sequence[Member],
        *,
        copy: bool,
        observation_mode: str | Any,
        autoreset_mode: AutoresetMode,
        env_fns: Sequence[Callable[[], gymnasium.Env[Any, Any]]] = (),
        tracebacks: dict[int, str] | None = None,
        shared_memory: bool = False,
        context: str | None = None,
        daemon: bool = True,
        max_concurrency: int | None = None,
        on_failure: str = "raise",
    ) -> None:
        fleet = Fleet(members, tracebacks)
        # First of all: whatever fails from here on, the sessions end.
        self._finalizer = weakref.finalize(self, fleet.close, _DROPPED_S, terminate=True)
        try:
            check_observation_mode(observation_mode)
            spaces = read_spaces(fleet.members, observation_mode)
            batches = batches_of(spaces.single_observation)
            # With one server and `copy`, what arrives is handed out as it is.
            last = LastObservations(fleet, batches, shared=copy and len(members) == 1)
            recovery = Recovery(fleet, on_failure, autoreset_mode, batches, last)
        except BaseException:
            self._finalizer()
            raise
        described = fleet.members[0].connection.environment
        self.env_fns = env_fns
        self.shared_memory = shared_memory
        self.copy = copy
        self.context = context
        self.daemon = daemon
        self.worker = None
        self.observation_mode = observation_mode
        self.autoreset_mode = autoreset_mode
        self.max_concurrency = max_concurrency
        self.num_envs = spaces.num_envs
        self.metadata = {
            **dict(described.get("metadata") or {}),
            "autoreset_mode": autoreset_mode,
        }
        self.render_mode = described.get("render_mode")
        self.single_action_space = spaces.single_action
        self.action_space = spaces.action
        self.single_observation_space = spaces.single_observation
        self.observation_space = spaces.observation
        # What `AsyncVectorEnv` keeps of its worker processes.
        self.parent_pipes = []
        self.processes = []
        self.error_queue = cast(Any, queue.SimpleQueue())
        self._fleet = fleet
        self._recovery = recovery
        self._actions = batches_of(spaces.single_action)
        self._batches = batches
        self._last = last
        self._partial = PartialSteps(fleet, recovery, self._actions, batches, last)
        self._spec: EnvSpec | None = None
        self._buffer = None if copy else self._batches.join([], self.num_envs)
        self.observations = self._buffer
        # A restart needs the last observations as they were, whatever the caller does to his.
        self._landing: Landing | None = None
        if copy and len(members) > 1 and not recovery.restarts:
            self._landing = landing_of(spaces.single_observation, fleet.members)
        self._state = AsyncState.DEFAULT

    @property
    def server_addresses(self) -> list[str]:
        """Where the servers are, each once."""
        addresses = [str(member.connection.address) for member in self._fleet.members]
        return list(dict.fromkeys(addresses))

    @property
    def described(self) -> Mapping[str, Any]:
        """What the first server tells of the environment (docs/protocol.md, section 4)."""
        return self._fleet.members[0].connection.environment

    # -- the end ------------------------------------------------------------------------------

    def close_extras(self, timeout: float | None = None, terminate: bool = False) -> None:
        """End the sessions, and the servers that are this environment's own.

        Args:
            timeout: Seconds to wait for a call that is pending, and for the sessions to end.
            terminate: Wait for neither.
        """
        try:
            if self._state != AsyncState.DEFAULT:
                logger.warn(
                    f"Calling `close` while waiting for a pending call to `{self._state.value}` "
                    "to complete."
                )
                getattr(self, f"{self._state.value}_wait")(0 if terminate else timeout)
        except multiprocessing.TimeoutError:
            terminate = True
        except errors.OpenEnvGymError as error:
            logger.warn(f"The pending call failed: {error}")
        finally:
            if self._finalizer.detach() is not None:
                self._fleet.close(None if terminate else timeout, terminate=terminate)

    def timing(self) -> dict[str, float]:
        """Return where the time of the last call went, in seconds.

        Returns:
            ``encode_s``, ``wire_s`` (both ways, with waking up), ``queue_s`` (in the server),
            ``environment_s`` (all its sub-environments) and ``decode_s``, of the server that took
            longest. Servers work at the same time.
        """
        timings = [member.connection.last_timing for member in self._fleet.members]
        slowest = max(timings, key=lambda timing: timing.queue + timing.environment)
        return {f"{name}_s": value / 1e9 for name, value in slowest._asdict().items()}

    # -- inside -------------------------------------------------------------------------------

    @property
    def spec(self) -> EnvSpec | None:
        """The spec from which `gymnasium.make_vec` made it, as plain data."""
        return self._spec

    @spec.setter
    def spec(self, spec: EnvSpec | None) -> None:
        if spec is not None:
            mode = spec.kwargs.get("autoreset_mode")
            if isinstance(mode, AutoresetMode):
                spec.kwargs["autoreset_mode"] = mode.value  # JSON knows no enumerations
        self._spec = spec

    def _wait(
        self,
        state: AsyncState,
        timeout: float | None,
        recover: Callable[[list[Any]], list[Any]],
    ) -> list[Any]:
        """Return what each member answered."""
        self._assert_is_running()
        if self._state != state:
            raise NoAsyncCallError(
                f"Calling `{state.value}_wait` without any prior call to `{state.value}_async`.",
                state.value,
            )
        self._state = AsyncState.DEFAULT  # whatever happens, the next call may come
        outcomes = self._fleet.wait(timeout)
        if outcomes is None:
            if timeout is None:
                raise errors.DeadlineExceededError(
                    f"No answer to {state.value} within {self._fleet.timeout_s:g} s.",
                    hint="Raise timeout_s.",
                )
            raise multiprocessing.TimeoutError(
                f"The call to `{state.value}_wait` has timed out after {timeout} second(s)."
            )
        for outcome in outcomes:
            if isinstance(outcome, errors.OpenEnvGymError) or outcome is None:
                return recover(outcomes)
        if self._recovery.something_waits:
            return recover(outcomes)
        return [outcome.value for outcome in outcomes]  # type: ignore[union-attr]

    def _after(self, error: BaseException) -> None:
        """After Ctrl-C between the two halves of a call nothing is pending."""
        if not isinstance(error, Exception):
            self._fleet.abandon()
            self._state = AsyncState.DEFAULT

    def _begin(self, op: str, args: Sequence[list[Any] | None]) -> None:
        """Send a request whose answers hold observations."""
        landing = self._landing
        self._fleet.begin(op, args, None if landing is None else landing.prepare())

    def _keep(self, observations: Sequence[Any]) -> Any:
        """Return the observations of all members as one batch, in the right memory."""
        if self._landing is not None:
            self.observations = self._landing.collect(observations)
            return self.observations
        if self._recovery.restarts:
            for index, part in enumerate(observations):
                self._last.note(index, part)
        if len(observations) == 1 and self._buffer is None:
            self.observations = observations[0]
            return observations[0]
        rows = [member.rows for member in self._fleet.members]
        joined = self._batches.join(
            list(zip(rows, observations, strict=True)), self.num_envs, self._buffer
        )
        if self._buffer is not None:
            self._buffer = joined
        self.observations = joined
        return joined

    def _merge(self, infos: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Return the infos of all members as one."""
        if len(infos) == 1:
            return with_masks(infos[0], self.num_envs) if infos[0] else infos[0]
        rows = [member.rows for member in self._fleet.members]
        return merge_infos(list(zip(rows, infos, strict=True)), self.num_envs)

    def _check_free(self, name: str) -> None:
        """Refuse a call while another one is pending."""
        self._check_default(name)
        if self._partial.in_flight:
            raise AlreadyPendingCallError(
                f"Calling `{name}` while waiting for a pending call to `send` to complete.", "send"
            )

    def _check_default(self, name: str) -> None:
        if self._state != AsyncState.DEFAULT:
            raise AlreadyPendingCallError(
                f"Calling `{name}` while waiting for a pending call to `{self._state.value}` "
                "to complete.",
                str(self._state.value),
            )
