"""Steps of some sub-environments, each on its own: `send` and `recv`."""

from __future__ import annotations

import functools
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

from openenv_gym import errors
from openenv_gym.server.vector.crew import Crew
from openenv_gym.server.vector.failures import raise_failures
from openenv_gym.server.vector.stepping import Members, Outcome, Stepper, close_quietly


__all__ = ["MAX_THREADS", "PartialSteps"]

MAX_THREADS = 64
"""Sub-environments of a session that may be in a step at once."""


class PartialSteps:
    """Sub-environments on their way, and those that have come back.

    Those on their way are in their steps all at once, each in a thread: who waits for a tool, for
    another program or for another sub-environment keeps nobody else waiting. Up to `MAX_THREADS`,
    that is; further ones begin, in the order in which they were sent, when others are through.

    Args:
        members: The sub-environments.
        stepper: Steps one, with its autoreset.
        crew: Threads that step, as many as are needed; None: the thread that receives does it,
            then, one after the other.
        first: Number of the first sub-environment, for errors.
    """

    def __init__(self, members: Members, stepper: Stepper, crew: Crew | None, first: int) -> None:
        count = len(members.envs)
        self._members = members
        self._stepper = stepper
        self._crew = crew
        self._first = first
        self._outcome = Outcome(count)
        self._given: list[Any] = [None] * count
        self._changed = threading.Condition(threading.Lock())
        self._pending: set[int] = set()
        self._running: set[int] = set()
        self._waiting: deque[int] = deque()
        self._ready: deque[int] = deque()
        self._failed: dict[int, BaseException] = {}
        self._closed = False

    @property
    def pending(self) -> int:
        """How many were sent and not received yet."""
        return len(self._pending)

    def check(self, indices: Sequence[int]) -> None:
        """Refuse sub-environments that are on their way.

        Raises:
            ProtocolError: One of them is.
        """
        for i in indices:
            if i in self._pending:
                raise errors.ProtocolError(
                    f"Sub-environment {i + self._first} was sent already and has not been "
                    "received yet.",
                    field="indices",
                    data={"index": i + self._first},
                )

    def send(self, indices: Sequence[int], actions: Sequence[Any]) -> None:
        """Begin a step in each of these, which are not on their way."""
        outcome = self._outcome
        for i, action in zip(indices, actions, strict=True):
            outcome.rewards[i] = 0.0
            outcome.terminations[i] = outcome.truncations[i] = False
            outcome.infos[i] = None
            outcome.finals.pop(i, None)
            self._given[i] = action
        self._pending.update(indices)
        with self._changed:
            self._waiting.extend(indices)
        if self._crew is not None:
            for _ in indices:
                self._crew.put(self._step_next)

    def _step_next(self) -> None:
        """Step the sub-environment that has waited longest."""
        with self._changed:
            if not self._waiting:
                return
            i = self._waiting.popleft()
            self._running.add(i)
        outcome = self._outcome
        self._stepper(self._members, (i,), self._given, outcome)
        with self._changed:
            for failure in [each for each in outcome.failures if each[0] == i]:
                outcome.failures.remove(failure)
                self._failed[i] = failure[1]
            self._running.discard(i)
            closed = self._closed
            self._ready.append(i)
            self._changed.notify_all()
        if closed:
            close_quietly(self._members.envs[i])

    def recv(self, min_envs: int, timeout_s: float | None) -> tuple[list[int], Outcome]:
        """Wait for steps to end; return whose, and their outcome in that order.

        Raises:
            ProtocolError: Fewer than `min_envs` were sent.
            OpenEnvGymError: A sub-environment raised; the others stay to be received.
        """
        if min_envs > len(self._pending):
            raise errors.ProtocolError(
                f"min_envs={min_envs}, but only {len(self._pending)} sub-environments were sent "
                "and not received yet.",
                field="min_envs",
                data={"pending": len(self._pending)},
            )
        end_s = None if timeout_s is None else time.monotonic() + timeout_s
        if self._crew is None:
            self._run_here(min_envs, end_s)
        with self._changed:
            self._changed.wait_for(
                functools.partial(self._enough, min_envs),
                None if end_s is None else max(end_s - time.monotonic(), 0.0),
            )
            failed, self._failed = self._failed, {}
            taken = [i for i in self._ready if not failed or i in failed]
            for i in taken:
                self._ready.remove(i)
        self._pending.difference_update(taken)
        raise_failures(failed.items(), self._first)
        return taken, self._pick(taken)

    def give_back(self, indices: Sequence[int]) -> None:
        """Have those that the last `recv` returned received again, before all others."""
        self._pending.update(indices)
        with self._changed:
            self._ready.extendleft(reversed(indices))

    def _enough(self, min_envs: int) -> bool:
        return len(self._ready) >= min_envs or bool(self._failed)

    def _run_here(self, min_envs: int, end_s: float | None) -> None:
        # At least one, or a client that never waits would never get anything.
        while self._waiting and not (self._ready and self._enough(min_envs)):
            self._step_next()
            if end_s is not None and time.monotonic() >= end_s:
                return

    def _pick(self, taken: list[int]) -> Outcome:
        source, picked = self._outcome, Outcome(0)
        picked.observations = [source.observations[i] for i in taken]
        picked.rewards = [source.rewards[i] for i in taken]
        picked.terminations = [source.terminations[i] for i in taken]
        picked.truncations = [source.truncations[i] for i in taken]
        picked.infos = [source.infos[i] for i in taken]
        picked.finals = {k: source.finals[i] for k, i in enumerate(taken) if i in source.finals}
        return picked

    def close(self) -> set[int]:
        """Begin no more steps; return those that are in one, which are closed at its end."""
        if self._crew is not None:
            self._crew.close()
        with self._changed:
            self._closed = True
            self._waiting.clear()
            return set(self._running)
