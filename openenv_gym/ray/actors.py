"""The workers as actors of Ray: started, told what to do, heard, ended."""

from __future__ import annotations

import contextlib
import os
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from openenv_gym import errors
from openenv_gym.ray.ledger import Work
from openenv_gym.ray.playing import Amount
from openenv_gym.ray.rollouts import Rollouts, merge
from openenv_gym.ray.sites import Site
from openenv_gym.ray.worker import Acting, Outcome, Worker


__all__ = ["Actors", "Answer"]

_FETCH_S = 120.0
_CLOSE_S = 5.0  # so long workers may take to close their environments


class Answer(NamedTuple):
    """What a worker was told to do, and what came of it.

    Attributes:
        worker: Its number.
        played: It was told to play; else, to make its environments.
        outcome: What came of it, or, where the worker is gone, what Ray says.
        data: Where Ray keeps the batch.
    """

    worker: int
    played: bool
    outcome: Outcome | Exception
    data: Any


class Actors:
    """Workers by their numbers. Ends them when it is closed, dropped, or with this process.

    Where Ray does not run yet, it is started here, and ended with the last who use it.

    Args:
        env_id: See `Worker`.
        options: See `Worker`.
        worker_options: Options of the actors.

    Attributes:
        facts: What there is to know of each worker that has environments.

    Raises:
        ProviderUnavailableError: Ray is not installed.
    """

    def __init__(
        self, env_id: str, options: dict[str, Any], worker_options: dict[str, Any]
    ) -> None:
        self._ray = _ray()
        self._worker = (env_id, options)
        self._options = {
            "num_cpus": 1,
            "scheduling_strategy": "SPREAD",
            **worker_options,
            "max_restarts": 0,
            "max_task_retries": 0,
        }
        self.facts: dict[int, dict[str, Any]] = {}
        self._actors: dict[int, Any] = {}
        self._tasks: dict[Any, tuple[int, bool, Any]] = {}
        ours = _join(self._ray)
        self._finalizer = weakref.finalize(self, _end_all, self._ray, self._actors, ours)

    @property
    def closed(self) -> bool:
        """It was closed."""
        return not self._finalizer.alive

    def close(self) -> None:
        """End all workers, with their servers, and Ray where it is ours and nobody else's."""
        self._finalizer()
        self.facts.clear()
        self._tasks.clear()

    def store(self, version: int, *parts: Any) -> Acting:
        """Put what workers act with where each node fetches it once."""
        policy, weights = (
            part if isinstance(part, (str, self._ray.ObjectRef)) else self._ray.put(part)
            for part in parts
        )
        return Acting(version, (policy, weights))

    def open(self, number: int, server: str | Site | None) -> None:
        """Have a worker make its environments; start it where it is not there yet."""
        if number not in self._actors:
            made = self._ray.remote(Worker).options(**self._options)
            self._actors[number] = made.remote(*self._worker)
        self._tasks[self._actors[number].open.remote(server)] = number, False, None

    def play(self, number: int, work: Work, amount: Amount, acting: Acting) -> None:
        """Have a worker play a batch, after what it plays now."""
        play = self._actors[number].play.options(num_returns=2)
        ref, data = play.remote(work, amount, acting)
        self._tasks[ref] = number, True, data

    def end(self, number: int) -> None:
        """End a worker, whatever it does; one that is gone already is as good as ended."""
        self.facts.pop(number, None)
        actor = self._actors.pop(number, None)
        if actor is not None:
            self._ray.kill(actor)

    def answers(self, timeout_s: float) -> Iterator[Answer]:
        """Return what has come; wait for that at most so long."""
        if not self._tasks:
            time.sleep(timeout_s)
            return
        refs = list(self._tasks)
        done, _ = self._ray.wait(refs, num_returns=1, timeout=timeout_s)
        if done:  # and what else has come by now
            done, _ = self._ray.wait(refs, num_returns=len(refs), timeout=0)
        for ref in done:
            number, played, data = self._tasks.pop(ref)
            outcome: Outcome | Exception
            try:
                outcome = self._ray.get(ref, timeout=_FETCH_S)
            except self._ray.exceptions.RayError as error:
                outcome = error
                self.end(number)
            if isinstance(outcome, Outcome) and outcome.facts and number in self._actors:
                self.facts[number] = outcome.facts
            yield Answer(number, played, outcome, data)

    def fetch(self, data: Any) -> Rollouts | Exception:
        """Bring a batch here; or return what Ray says where it is lost."""
        try:
            batch: Rollouts = self._ray.get(data, timeout=_FETCH_S)
        except self._ray.exceptions.RayError as error:
            return error  # type: ignore[no-any-return]
        # Out of Ray's memory: what is kept of a collection would fill it.
        return merge([batch], copy=True)


def _ray() -> Any:
    try:
        import ray
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        raise errors.ProviderUnavailableError(
            "Ray is not installed.", hint="Run pip install 'openenv-gym[ray]'."
        ) from error
    return ray


@dataclass
class _Ours:
    """Ray as it was started here.

    Attributes:
        place: Which one: Ray may have been ended since, and started again by somebody.
        users: How many `Actors` have workers there.
    """

    place: tuple[Any, ...]
    users: int = 1


_LOCK = threading.RLock()  # actors that are dropped may be ended while others are made
_ours: _Ours | None = None


def _place_of(ray: Any) -> tuple[Any, ...]:
    context = ray.get_runtime_context()
    return context.get_node_id(), context.get_job_id()


def _join(ray: Any) -> _Ours | None:
    """Use the Ray that runs, or start one; None where it is somebody else's."""
    global _ours
    with _LOCK:
        if _ours is not None:
            _ours.users += 1  # first of all: nobody ends it from here on
            if ray.is_initialized() and _ours.place == _place_of(ray):
                return _ours
        if ray.is_initialized():
            return None
        # Ray's own way of starting itself, but for what it would tell others about its use.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        ray.init(include_dashboard=False, log_to_driver=False, configure_logging=False)
        _ours = _Ours(_place_of(ray))
        return _ours


def _leave(ray: Any, ours: _Ours) -> None:
    """Use our Ray no more, and end it where nobody does."""
    global _ours
    with _LOCK:
        ours.users -= 1
        if ours.users == 0 and ours is _ours:
            _ours = None
            if ray.is_initialized() and ours.place == _place_of(ray):
                ray.shutdown()


def _end_all(ray: Any, actors: dict[int, Any], ours: _Ours | None) -> None:
    """End all workers, and our Ray where nobody else uses it."""
    try:
        if ray.is_initialized():
            _end_actors(ray, actors)
    finally:
        if ours is not None:
            _leave(ray, ours)


def _end_actors(ray: Any, actors: dict[int, Any]) -> None:
    """End all workers: those that can close their environments, and then those that did not."""
    closing: Sequence[Any] = [actor.close.remote() for actor in actors.values()]
    if closing:
        with contextlib.suppress(Exception):  # whatever is wrong with them: they are killed next
            ray.wait(closing, num_returns=len(closing), timeout=_CLOSE_S)
    for actor in actors.values():
        ray.kill(actor)
    actors.clear()
