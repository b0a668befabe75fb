"""What moves sub-environments: one after the other, or shared among a few threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from openenv_gym.server.vector.actions import ActionReader
from openenv_gym.server.vector.crew import Crew
from openenv_gym.server.vector.failures import raise_failures, reset_needed
from openenv_gym.server.vector.infos import batch_infos
from openenv_gym.server.vector.observations import ObservationBatcher, detached
from openenv_gym.server.vector.partial import MAX_THREADS, PartialSteps
from openenv_gym.server.vector.saving import restore_sub_environment, save_sub_environment
from openenv_gym.server.vector.stepping import STEPPERS, Members, Outcome, close_quietly


__all__ = ["Engine", "SubEnvironments"]

Seeds = Sequence[int | None] | None
Mask = NDArray[np.bool_] | None


class Engine(Protocol):
    """What moves the sub-environments of a vector session."""

    name: str

    def reset(self, seeds: Seeds, options: dict[str, Any] | None, mask: Mask) -> list[Any]:
        """Begin new episodes; return observations and infos."""

    def step(self, actions: Any) -> list[Any]:
        """Take one step in each; return observations, rewards, terminations, truncations, infos."""

    def send(self, indices: Sequence[int], actions: Any) -> None:
        """Begin a step in some."""

    def recv(self, min_envs: int, timeout_s: float | None) -> list[Any]:
        """Return indices and results of those that are through with theirs."""

    @property
    def pending(self) -> int:
        """How many have begun a step that was not received yet."""

    def render(self) -> list[Any]:
        """Return a frame, or whatever the render mode says, for each."""

    def call(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> list[Any]:
        """Return for each the value of an attribute, or what the method returned."""

    def set(self, name: str, values: Sequence[Any]) -> None:
        """Set an attribute of each."""

    def save(self) -> list[Any]:
        """Return the state of each."""

    def restore(self, states: Sequence[Any]) -> None:
        """Return each to a state that was saved; None leaves one as it is."""

    def close(self) -> None:
        """Close all."""


class SubEnvironments:
    """Single environments, stepped here.

    Args:
        envs: The environments, each ready for `reset`.
        autoreset_mode: What happens after an episode's end.
        first: Number of the first one within the client's vector, for errors.
        threads: How many may step at once, this one included.
        resets_at_once: As many may reset at once, when all are told to.
        pinned: Only the calling thread may touch the environments.
        max_threads: How many of those that were sent may be in their steps at once.

    Attributes:
        name: ``"loop"`` or ``"threads"``.
        envs: The environments.
    """

    def __init__(
        self,
        envs: Sequence[gymnasium.Env[Any, Any]],
        *,
        autoreset_mode: AutoresetMode,
        first: int = 0,
        threads: int = 1,
        resets_at_once: bool = False,
        pinned: bool = False,
        max_threads: int = MAX_THREADS,
    ) -> None:
        count = len(envs)
        self.envs = list(envs)
        self.name = "threads" if threads > 1 else "loop"
        self._count = count
        self._first = first
        self._all = range(count)
        self._members = Members(envs)
        self._mode = autoreset_mode
        self._stepper = STEPPERS[autoreset_mode]
        self._next_step = autoreset_mode is AutoresetMode.NEXT_STEP
        self._actions = ActionReader(envs[0].action_space, first=first)
        self._batcher = ObservationBatcher(envs[0].observation_space)
        self._crew = Crew(threads - 1) if threads > 1 else None
        self._resets_at_once = resets_at_once
        self._partial: PartialSteps | None = None
        self._pinned = pinned
        self._max_threads = max_threads
        self._started = False
        self._last: Any = None
        # Observations that are newer than those in `_last`, by index.
        self._newer: dict[int, Any] = {}
        self._reward_shape: tuple[int, ...] = ()

    # -- all at once --------------------------------------------------------------------------

    def reset(self, seeds: Seeds, options: dict[str, Any] | None, mask: Mask) -> list[Any]:
        """Begin new episodes, where the mask is true.

        Raises:
            OpenEnvGymError: One of them raised; ``data`` says which.
            ResetNeededError: One that is masked out was never reset.
        """
        members, count = self._members, self._count
        chosen = self._all if mask is None else [int(i) for i in np.flatnonzero(mask)]
        if mask is not None:
            never = [i for i in self._all if not members.started[i] and not mask[i]]
            if never:
                raise reset_needed("reset with a mask", never, self._first)
        outcome = Outcome(count)
        observations, infos = outcome.observations, outcome.infos

        def reset_some(indices: Iterable[int]) -> None:
            for i in indices:
                members.due[i] = members.over[i] = False
                try:
                    observations[i], infos[i] = members.resets[i](
                        seed=None if seeds is None else seeds[i],
                        # A copy for each: what one takes out must not be missing for the next.
                        options=options if options is None else detached(options),
                    )
                    members.started[i] = True
                except BaseException as error:
                    outcome.failures.append((i, error))

        if self._resets_at_once:
            self._share(chosen, reset_some)
        else:
            reset_some(chosen)
        self._started = all(members.started)
        batch = None if outcome.failures else self._observations(outcome, chosen)
        found = batch_infos(infos, {}, outcome.failures)
        self._settle(outcome, chosen)
        self._last = batch
        self._newer.clear()
        return [batch, found]

    def step(self, actions: Any) -> list[Any]:
        """Take one step in each.

        Raises:
            InvalidActionError: An action is not in its space; then nobody has moved.
            OpenEnvGymError: A sub-environment raised; ``data`` says which.
            ResetNeededError: One was never reset, or has to be.
        """
        members, every = self._members, self._all
        if not self._started or (True in members.over):
            self._need_reset("step", every)
        found = self._actions.read(actions, every, members.due)
        resets = self._next_step and True in members.due
        outcome = Outcome(self._count)
        self._share(every, lambda indices: self._stepper(members, indices, found, outcome))
        failures = outcome.failures
        observations = None if failures else self._observations(outcome, every)
        rewards = self._rewards(outcome.rewards, resets, failures)
        infos = batch_infos(outcome.infos, outcome.finals, failures)
        if failures:
            for i, _ in failures:
                members.due[i] = False
            self._settle(outcome, every)
        self._last = observations
        if self._newer:
            self._newer.clear()
        return [
            observations,
            rewards,
            np.array(outcome.terminations, np.bool_),
            np.array(outcome.truncations, np.bool_),
            infos,
        ]

    def _share(self, chosen: Sequence[int], work: Callable[[Iterable[int]], None]) -> None:
        """Do something with sub-environments, in as many threads as there are for it."""
        if self._crew is None or len(chosen) < 2:
            work(chosen)
            return
        indices = iter(chosen)  # whoever is free takes the next one
        self._crew.share(lambda: work(indices), min(self._crew.size, len(chosen) - 1))

    def _observations(self, outcome: Outcome, chosen: Sequence[int]) -> Any:
        """Return the batch of all observations, those that were not asked for as they were.

        Where one has been restored and nothing was observed yet, there are zeros.
        """
        found, newer = outcome.observations, self._newer
        try:
            if len(chosen) == self._count:
                return self._batcher.stack(found)
            latest = {**newer, **{i: found[i] for i in chosen}}
            if self._last is not None:
                return self._batcher.replace(self._last, latest)
            # There was no request yet in which nobody failed.
            if len(latest) == self._count:
                return self._batcher.stack([latest[i] for i in self._all])
            return self._batcher.replace(self._batcher.blank(self._count), latest)
        except Exception:
            misfits = self._batcher.misfits([found[i] for i in chosen])
            if not misfits:
                raise
            outcome.failures += [(chosen[k], misfit) for k, misfit in misfits.items()]
            return None

    def _settle(self, outcome: Outcome, chosen: Sequence[int]) -> None:
        """Where one has failed, keep what the others have observed, and raise."""
        if outcome.failures:
            failed = {i for i, _ in outcome.failures}
            for i in chosen:
                if i not in failed:
                    self._newer[i] = detached(outcome.observations[i])
            ends = zip(outcome.terminations, outcome.truncations, strict=True)
            ended = [i for i, (terminated, truncated) in enumerate(ends) if terminated or truncated]
            raise_failures(outcome.failures, self._first, ended)

    def _rewards(
        self, rewards: list[Any], resets: bool, failures: list[tuple[int, BaseException]]
    ) -> NDArray[np.float64]:
        """Return rewards as an array; they may be arrays themselves, all of the same shape."""
        if not (resets and self._reward_shape):
            try:
                array = np.array(rewards, np.float64)
                if array.ndim > 1:
                    self._reward_shape = array.shape[1:]
                return array
            except (TypeError, ValueError):
                pass  # zeros of steps that reset among arrays, or something that is no number
        shape = next((np.shape(reward) for reward in rewards if np.ndim(reward)), ())
        self._reward_shape = shape or self._reward_shape
        array = np.zeros((len(rewards), *self._reward_shape), np.float64)
        for index, reward in enumerate(rewards):
            try:
                array[index] = reward
            except (TypeError, ValueError) as error:
                failures.append((index, error))
        return array

    def _need_reset(self, op: str, indices: Sequence[int]) -> None:
        members = self._members
        needy = [i for i in indices if members.over[i] or not members.started[i]]
        if needy:
            raise reset_needed(op, needy, self._first)

    # -- each on its own ----------------------------------------------------------------------

    @property
    def pending(self) -> int:
        """How many have begun a step that was not received yet."""
        return 0 if self._partial is None else self._partial.pending

    def send(self, indices: Sequence[int], actions: Any) -> None:
        """Begin a step in some; each is independent of the others.

        Raises:
            InvalidActionError: An action is not in its space; then none has begun.
            ProtocolError: One of them has not come back from its last step yet.
            ResetNeededError: One was never reset, or has to be.
        """
        partial = self._moving()
        partial.check(indices)
        self._need_reset("send", indices)
        partial.send(indices, self._actions.read(actions, indices, self._members.due))

    def _moving(self) -> PartialSteps:
        if self._partial is None:
            crew = None if self._pinned else Crew(min(self._max_threads, self._count))
            self._partial = PartialSteps(self._members, self._stepper, crew, self._first)
        return self._partial

    def recv(self, min_envs: int, timeout_s: float | None) -> list[Any]:
        """Wait for steps to end.

        Args:
            min_envs: For how many.
            timeout_s: Seconds after which there may be fewer; None: wait for ever.

        Returns:
            Indices, in the order in which they ended, and batches with as many rows.

        Raises:
            ProtocolError: Fewer than `min_envs` have begun one.
            OpenEnvGymError: A sub-environment raised; only such are then received.
        """
        partial = self._moving()
        taken, outcome = partial.recv(min_envs, timeout_s)
        failures: list[tuple[int, BaseException]] = []
        observations: Any = None
        try:
            observations = self._batcher.stack(outcome.observations)
        except Exception:
            misfits = self._batcher.misfits(outcome.observations)
            if not misfits:
                raise
            failures += misfits.items()
        rewards = self._rewards(outcome.rewards, bool(self._reward_shape), failures)
        infos = batch_infos(outcome.infos, outcome.finals, failures)
        if failures:
            failed = {taken[k] for k, _ in failures}
            for i in failed:
                self._members.due[i] = False
            partial.give_back([i for i in taken if i not in failed])
            raise_failures([(taken[k], error) for k, error in failures], self._first)
        for i, observation in zip(taken, outcome.observations, strict=True):
            self._newer[i] = detached(observation)
        return [
            np.array(taken, np.int64),
            observations,
            rewards,
            np.array(outcome.terminations, np.bool_),
            np.array(outcome.truncations, np.bool_),
            infos,
        ]

    # -- attributes ---------------------------------------------------------------------------

    def render(self) -> list[Any]:
        """Return what each renders.

        Raises:
            ResetNeededError: One was never reset.
        """
        if not self._started:
            self._need_reset("render", self._all)
        return self._each(lambda i: self.envs[i].render())

    def call(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> list[Any]:
        """Return the value of an attribute of each, or what the method of that name returned."""

        def call(i: int) -> Any:
            found = self.envs[i].get_wrapper_attr(name)
            return found(*args, **kwargs) if callable(found) else found

        return self._each(call)

    def set(self, name: str, values: Sequence[Any]) -> None:
        """Set an attribute of each to its value."""
        self._each(lambda i: self.envs[i].set_wrapper_attr(name, values[i]))

    def save(self) -> list[Any]:
        """Return the state of each.

        Raises:
            ResetNeededError: One was never reset.
            OpenEnvGymError: One cannot do that; ``data`` says which.
        """
        if not self._started:
            self._need_reset("save_states", self._all)
        return self._each(lambda i: save_sub_environment(self.envs[i]))

    def restore(self, states: Sequence[Any]) -> None:
        """Return each to a state that was saved; None leaves one as it is.

        Raises:
            OpenEnvGymError: One does not take it; ``data`` says which. The others have done so.
        """
        members = self._members

        def restore(i: int) -> None:
            if states[i] is not None:
                restore_sub_environment(self.envs[i], states[i])
                members.due[i] = members.over[i] = False
                members.started[i] = True

        try:
            self._each(restore)
        finally:
            self._started = all(members.started)

    def _each(self, work: Any) -> list[Any]:
        found: list[Any] = []
        failures: list[tuple[int, BaseException]] = []
        for i in self._all:
            try:
                found.append(work(i))
            except BaseException as error:
                failures.append((i, error))
        raise_failures(failures, self._first)
        return found

    def close(self) -> None:
        """Close all; one that is in a step is closed after it, by the thread that runs it."""
        if self._crew is not None:
            self._crew.close()
        busy = set() if self._partial is None else self._partial.close()
        for i in self._all:
            if i not in busy:
                close_quietly(self.envs[i])
