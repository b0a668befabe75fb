"""The driver: does what the crew says, by means of Ray, and hands out what was collected."""

from __future__ import annotations

import contextlib
import os
import time
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from openenv_gym import errors
from openenv_gym.providers.base import check_option
from openenv_gym.ray.crew import Crew, End, Limits, Open, Order
from openenv_gym.ray.ledger import Ledger, Missing, Work
from openenv_gym.ray.playing import Amount
from openenv_gym.ray.progress import Progress
from openenv_gym.ray.rollouts import Rollouts, merge
from openenv_gym.ray.sites import site_of
from openenv_gym.ray.worker import Acting, Outcome, Worker
from openenv_gym.registration import lookup


if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["Collector", "collect"]

_LOOK_S = 0.2
_FETCH_S = 120.0
_PLACE_S = 30.0  # so long a server may take to forget a worker that was killed
_CLOSE_S = 5.0


class _Task(NamedTuple):
    worker: int
    work: Work | None  # None: it makes its environments
    data: Any


class _Ready(NamedTuple):
    worker: int
    work: Work
    data: Any


class Collector:
    """Collects rollouts with workers that are actors of Ray, each with one vector environment.

    ::

        with Collector("openenv/CartPole-v1", rollouts=256, steps=200, seed=7) as collector:
            for batch in collector:
                ...

    Rollout i is what a sub-environment does that was reset with ``seed + i``. So what is collected
    depends on `rollouts`, `steps` or `episodes`, `seed` and `policy`, and neither on the number of
    workers, nor on which of them played what, nor on what was lost meanwhile: what is lost is
    played again, from its seeds. That holds for environments and policies for which equal seeds
    are equal rollouts.

    Args:
        env_id: One of our ids.
        rollouts: How many; by default one for each sub-environment of each worker.
        steps: Steps of each rollout, over as many episodes as they take.
        episodes: Whole episodes of each rollout, in place of `steps`.
        seed: Of the first rollout.
        policy: ``"random"``; ``"module:function"``; or a function that can be pickled. See
            `openenv_gym.ray.playing.load_actor`.
        weights: What `policy` is made with, once in each worker; may be an object of Ray.
        num_workers: Workers at most. They are started little by little, and fewer are at work
            where more would only be in each other's way.
        num_envs: Sub-environments of each worker.
        rollouts_per_batch: Rollouts that a worker plays at a time, which is what is lost with it;
            by default as many as it has sub-environments. With short episodes more of them keep
            sub-environments from waiting for the longest.
        servers: Addresses of servers that run, or such servers; workers spread over them.
        provider: Without `servers`: where each worker starts its own, on its node; see
            `gymnasium.make_vec`. An object must be one that can be pickled; a function is called.
        attempts: How often a batch may be lost before it is missing.
        max_ahead: Batches that may be under way, or wait for the caller: three for each worker
            by default. Workers wait when it is reached.
        start_timeout_s: How long a worker may take to have its environments.
        batch_timeout_s: How long a batch may take.
        allow_missing: Go on without what cannot be had, and name it in `missing`.
        progress: Show a line on standard error; None: where that is a terminal.
        worker_options: Options of the actors: ``{"num_cpus": 2, "resources": {...}}``. By default
            each takes one processor, and they are spread over the nodes.
        **options: Of the environments, and of `gymnasium.make_vec`.

    Attributes:
        missing: What the last collection lacks.
        losses: Workers and servers that were lost until now.

    Raises:
        InvalidOptionError: An argument does not hold.
        UnknownEnvironmentError: There is no such id.
        ProviderUnavailableError: Ray is not installed.
    """

    def __init__(
        self,
        env_id: str,
        *,
        rollouts: int | None = None,
        steps: int | None = None,
        episodes: int | None = None,
        seed: int = 0,
        policy: Any = "random",
        weights: Any = None,
        num_workers: int = 2,
        num_envs: int = 16,
        rollouts_per_batch: int | None = None,
        servers: Sequence[Any] | None = None,
        provider: Any = None,
        attempts: int = 3,
        max_ahead: int | None = None,
        start_timeout_s: float = 120.0,
        batch_timeout_s: float = 600.0,
        allow_missing: bool = False,
        progress: bool | None = None,
        worker_options: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        entry = lookup(env_id.removeprefix("openenv_gym:"))
        self._amount = _amount(steps, episodes)
        self._num_envs = _count("num_envs", num_envs)
        num_workers = _count("num_workers", num_workers)
        self._rollouts = _count(
            "rollouts", num_workers * num_envs if rollouts is None else rollouts
        )
        self._per_batch = _count("rollouts_per_batch", rollouts_per_batch or num_envs)
        self._attempts = _count("attempts", attempts)
        self._seed = _seed(seed)
        self._policy, self._weights, self._version = policy, weights, 0
        self._sites = None if servers is None else [site_of(server) for server in servers]
        if servers is not None and (not self._sites or provider is not None):
            raise errors.InvalidOptionError(
                "servers: expected at least one, and no provider= beside them.", field="servers"
            )
        self._allow_missing = allow_missing
        self._progress = progress
        self._ray = _ray()
        options = {"num_envs": self._num_envs, **options}
        if self._sites is None:
            options["provider"] = provider
            if not entry.untrusted:  # those have a server for each sub-environment
                options.setdefault("num_servers", 1)
        else:
            options.setdefault("wait_s", _PLACE_S)
        self._options = options
        self._env_id = f"openenv_gym:{entry.id}"
        self._worker_options = {
            "num_cpus": 1,
            "scheduling_strategy": "SPREAD",
            **(worker_options or {}),
            "max_restarts": 0,
            "max_task_retries": 0,
        }
        ahead = 3 * num_workers if max_ahead is None else _count("max_ahead", max_ahead)
        self._crew = Crew(
            num_workers=num_workers,
            num_servers=len(self._sites or ()),
            ahead=ahead,
            limits=Limits(start_timeout_s, batch_timeout_s),
        )
        self._actors: dict[int, Any] = {}
        self._facts: dict[int, dict[str, Any]] = {}
        self._tasks: dict[Any, _Task] = {}
        self._ready: deque[_Ready] = deque()
        self._ledger: Ledger | None = None
        self._cause: Exception | None = None
        self._fatal: Exception | None = None
        self._stored: tuple[int, Any] | None = None
        self.missing: list[Missing] = []
        # Ray's own way of starting itself, but for what it would tell others about its use.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        ours = not self._ray.is_initialized()
        if ours:
            self._ray.init(include_dashboard=False, log_to_driver=False, configure_logging=False)
        self._finalizer = weakref.finalize(self, _end_all, self._ray, self._actors, ours)

    @property
    def losses(self) -> int:
        """Workers and servers that were lost until now."""
        return self._crew.losses

    def __iter__(self) -> Iterator[Rollouts]:
        return self.batches()

    def batches(self, *, seed: int | None = None, weights: Any = None) -> Iterator[Rollouts]:
        """Collect once, and return each batch as soon as it is there, in any order.

        Nothing is collected beyond `max_ahead` batches that nobody takes. An iteration that is
        left early leaves the workers as they are, for the next.

        Args:
            seed: Of the first rollout; None: the one of the collector.
            weights: For the policy from now on; None: those that it had last.

        Raises:
            RolloutsMissingError: Something cannot be had, and `allow_missing` is false.
            OpenEnvGymError: No worker can make its environments.
        """
        if not self._finalizer.alive:
            raise errors.SessionClosedError("This collector was closed.", hint="Make another one.")
        if weights is not None:
            self._weights, self._version = weights, self._version + 1
        works = _works(self._rollouts, self._per_batch, self._seed if seed is None else _seed(seed))
        return self._collect(works)

    def collect(self, *, seed: int | None = None, weights: Any = None) -> Rollouts:
        """Collect once, and return all of it, in the order of the rollouts.

        Args:
            seed: See `batches`.
            weights: See `batches`.

        Raises:
            RolloutsMissingError: Something is missing; the error has what is there. (Where
                `allow_missing` is true, only if nothing is there at all.)
            OpenEnvGymError: No worker can make its environments.
        """
        parts: list[Rollouts] = []
        try:
            parts.extend(self.batches(seed=seed, weights=weights))
        except errors.RolloutsMissingError as error:
            error.partial = merge(parts) if parts else None
            raise
        if not parts:
            raise _missing_error(self.missing)
        return merge(parts)

    @property
    def workers(self) -> dict[int, dict[str, Any]]:
        """Those that have environments: ``pid`` of each, and ``node``, the address of its node."""
        return {number: dict(facts) for number, facts in self._facts.items()}

    def close(self) -> None:
        """End all workers, with their servers, and Ray where it was started here."""
        self._finalizer()
        self._facts.clear()
        self._tasks.clear()
        self._ready.clear()

    def __enter__(self) -> Collector:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # -- one collection -----------------------------------------------------------------------

    def _collect(self, works: list[Work]) -> Iterator[Rollouts]:
        ledger = Ledger(works, attempts=self._attempts)
        self._crew.begin(ledger)
        self._ledger = ledger
        self._ready.clear()
        self.missing = []
        self._cause = self._fatal = None
        bar = Progress(len(works), shown=self._progress)
        try:
            while True:
                if self._ledger is not ledger:
                    raise errors.SessionClosedError(
                        "Another collection has begun with this collector.",
                        hint="Take all of one before the next, or make a second collector.",
                    )
                self._look(0.0)
                if self._ready:
                    batch = self._fetch(self._ready.popleft())
                    if batch is not None:
                        bar.add(batch.num_steps, batch.num_episodes)
                        bar.draw(ledger.there, self._crew.at_work, self._crew.losses)
                        yield batch
                elif self._fatal is not None:
                    raise self._fatal
                elif self._is_over(ledger):
                    break
                else:
                    self._look(_LOOK_S)
                bar.draw(ledger.there, self._crew.at_work, self._crew.losses)
        except (KeyboardInterrupt, SystemExit):
            self.close()
            raise
        bar.draw(ledger.there, self._crew.at_work, self._crew.losses, last=True)
        self.missing = ledger.missing
        if self.missing and not self._allow_missing:
            raise _missing_error(self.missing, self._crew.hopeless) from self._cause

    def _is_over(self, ledger: Ledger) -> bool:
        hasty = ledger.given_up > 0 and not self._allow_missing
        return ledger.over or hasty or self._crew.hopeless is not None

    def _look(self, timeout_s: float) -> None:
        """Do what there is to do, and take what has come; wait for that at most so long."""
        now_s = time.monotonic()
        for order in self._crew.orders(now_s):
            self._do(order)
        if not self._tasks:
            time.sleep(timeout_s)
            return
        refs = list(self._tasks)
        done, _ = self._ray.wait(refs, num_returns=1, timeout=timeout_s)
        if done:  # and what else has come by now
            done, _ = self._ray.wait(refs, num_returns=len(refs), timeout=0)
        for ref in done:
            self._take(ref, self._tasks.pop(ref))

    def _do(self, order: Order) -> None:
        if isinstance(order, End):
            self._end(order.worker)
        elif isinstance(order, Open):
            if order.worker not in self._actors:
                made = self._ray.remote(Worker).options(**self._worker_options)
                self._actors[order.worker] = made.remote(self._env_id, self._options)
            server = None
            if self._sites is not None and order.server is not None:
                server = self._sites[order.server]
            ref = self._actors[order.worker].open.remote(server)
            self._tasks[ref] = _Task(order.worker, None, None)
        else:
            play = self._actors[order.worker].play.options(num_returns=2)
            ref, data = play.remote(order.work, self._amount, self._acting())
            self._tasks[ref] = _Task(order.worker, order.work, data)

    def _take(self, ref: Any, task: _Task) -> None:
        now_s = time.monotonic()
        number = task.worker
        try:
            outcome: Outcome = self._ray.get(ref, timeout=_FETCH_S)
        except self._ray.exceptions.RayError as error:
            self._crew.worker_lost(number, _words(error), now_s)
            self._end(number)
            return
        if outcome.kind == "closed":
            return
        if outcome.kind == "failed":
            self._cause = outcome.error
            if task.work is None:
                self._fatal = outcome.error
            else:
                self._crew.failed(number, _words(outcome.error), now_s)
        elif outcome.kind == "lost":
            self._cause = outcome.error
            lose = self._crew.refused if task.work is None else self._crew.server_lost
            lose(number, _words(outcome.error), now_s)
        elif task.work is None:
            self._facts[number] = outcome.facts
            self._crew.opened(number)
        else:
            work = self._crew.finished(number, outcome.seconds, outcome.vector_steps, now_s)
            if work is not None:
                self._ready.append(_Ready(number, work, task.data))

    def _fetch(self, ready: _Ready) -> Rollouts | None:
        """Bring a batch here; None where it is lost, and will be played again."""
        try:
            batch: Rollouts = self._ray.get(ready.data, timeout=_FETCH_S)
        except self._ray.exceptions.RayError as error:
            self._crew.data_lost(ready.work, ready.worker, _words(error))
            return None
        self._crew.taken()
        # Out of Ray's memory: what is kept of a collection would fill it.
        return merge([batch], copy=True)

    def _acting(self) -> Acting:
        """Return who acts, as objects that each node fetches once."""
        if self._stored is None or self._stored[0] != self._version:
            parts = tuple(
                part if isinstance(part, (str, self._ray.ObjectRef)) else self._ray.put(part)
                for part in (self._policy, self._weights)
            )
            self._stored = self._version, Acting(self._version, parts)  # type: ignore[arg-type]
        acting: Acting = self._stored[1]
        return acting

    def _end(self, number: int) -> None:
        self._facts.pop(number, None)
        actor = self._actors.pop(number, None)
        if actor is not None:
            self._ray.kill(actor)


def collect(env_id: str, **options: Any) -> Rollouts:
    """Collect once with a `Collector` of these arguments, and return all of it.

    Raises:
        RolloutsMissingError: Something is missing, and `allow_missing` is false.
        OpenEnvGymError: See `Collector`.
    """
    with Collector(env_id, **options) as collector:
        return collector.collect()


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


def _end_all(ray: Any, actors: dict[int, Any], ours: bool) -> None:
    """End all workers: those that can close their environments, and then those that did not."""
    if not ray.is_initialized():
        return
    with contextlib.suppress(Exception):  # whatever is wrong with them: they are killed next
        ray.wait(
            [actor.close.remote() for actor in actors.values()],
            num_returns=max(len(actors), 1),
            timeout=_CLOSE_S,
        )
    for actor in actors.values():
        ray.kill(actor)
    actors.clear()
    if ours:
        ray.shutdown()


def _works(rollouts: int, per_batch: int, seed: int) -> list[Work]:
    return [
        Work(number, first, tuple(range(seed + first, seed + min(first + per_batch, rollouts))))
        for number, first in enumerate(range(0, rollouts, per_batch))
    ]


def _missing_error(
    missing: Sequence[Missing], hopeless: str | None = None
) -> errors.RolloutsMissingError:
    count = sum(last - first + 1 for (first, last) in (each.rollouts for each in missing))
    lines = "\n".join(f"  {each}" for each in missing[:10])
    more = f"\n  and {len(missing) - 10} more" if len(missing) > 10 else ""
    nobody = f" No worker has environments: {hopeless}." if hopeless else ""
    return errors.RolloutsMissingError(
        f"{count} rollouts are missing.{nobody}\n{lines}{more}",
        data={
            "missing": [
                {
                    "rollouts": list(each.rollouts),
                    "seeds": list(each.seeds),
                    "worker": each.worker,
                    "reasons": list(each.reasons),
                }
                for each in missing
            ]
        },
    )


def _words(error: BaseException | None) -> str:
    text = errors.printable(str(error)).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else ''}"


def _amount(steps: int | None, episodes: int | None) -> Amount:
    if (steps is None) == (episodes is None):
        raise errors.InvalidOptionError(
            f"steps={steps!r}, episodes={episodes!r}: expected one of them, for each rollout.",
            field="steps",
        )
    if steps is not None:
        return Amount(_count("steps", steps), "steps")
    return Amount(_count("episodes", episodes), "episodes")


def _count(name: str, value: Any) -> int:
    check_option(name, value, "an integer of at least 1", type(value) is int and value >= 1)
    return int(value)


def _seed(value: Any) -> int:
    check_option("seed", value, "an integer of at least 0", type(value) is int and value >= 0)
    return int(value)
