"""The driver: does what the crew says, by means of Ray, and hands out what was collected."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from openenv_gym import errors
from openenv_gym.ray.actors import Actors, Answer
from openenv_gym.ray.arguments import read_amount, read_count, read_options, read_seed
from openenv_gym.ray.crew import Crew, End, Limits, Open, Order
from openenv_gym.ray.ledger import Ledger, Missing, Work, missing_error
from openenv_gym.ray.progress import Progress
from openenv_gym.ray.rollouts import Rollouts, merge
from openenv_gym.ray.sites import site_of
from openenv_gym.ray.worker import Acting
from openenv_gym.registration import lookup


if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["Collector", "collect"]

_LOOK_S = 0.2
_PLACE_S = 30.0  # so long a server may take to forget a worker that was killed
_WORDS = 240  # of an error of Ray's, which goes on with what one could look at


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
        **options: Of the environments, and of `gymnasium.make_vec`, but for those that say how
            observations lie in memory and how sub-environments go on.

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
        self._amount = read_amount(steps, episodes)
        self._num_envs = read_count("num_envs", num_envs)
        num_workers = read_count("num_workers", num_workers)
        self._rollouts = read_count(
            "rollouts", num_workers * num_envs if rollouts is None else rollouts
        )
        self._per_batch = read_count("rollouts_per_batch", rollouts_per_batch or num_envs)
        self._attempts = read_count("attempts", attempts)
        self._seed = read_seed(seed)
        self._policy, self._weights, self._version = policy, weights, 0
        self._sites = [site_of(server) for server in servers or ()]
        if servers is not None and (not self._sites or provider is not None):
            raise errors.InvalidOptionError(
                "servers: expected at least one, and no provider= beside them.", field="servers"
            )
        self._allow_missing = allow_missing
        self._progress = progress
        options = {"num_envs": self._num_envs, **read_options(options)}
        if servers is None:
            options["provider"] = provider
            if not entry.untrusted:  # those have a server for each sub-environment
                options.setdefault("num_servers", 1)
        else:
            options.setdefault("wait_s", _PLACE_S)
        ahead = 3 * num_workers if max_ahead is None else read_count("max_ahead", max_ahead)
        self._crew = Crew(
            num_workers=num_workers,
            num_servers=len(self._sites),
            ahead=ahead,
            limits=Limits(start_timeout_s, batch_timeout_s),
        )
        self._ready: deque[_Ready] = deque()
        self._ledger: Ledger | None = None
        self._cause: Exception | None = None
        self._fatal: Exception | None = None
        self._acting: Acting | None = None
        self.missing: list[Missing] = []
        self._actors = Actors(f"openenv_gym:{entry.id}", options, worker_options or {})

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
        if self._actors.closed:
            raise errors.SessionClosedError("This collector was closed.", hint="Make another one.")
        if weights is not None:
            self._weights, self._version, self._acting = weights, self._version + 1, None
        works = _works(
            self._rollouts, self._per_batch, self._seed if seed is None else read_seed(seed)
        )
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
            raise missing_error(self.missing)
        return merge(parts)

    @property
    def workers(self) -> dict[int, dict[str, Any]]:
        """Those that have environments: ``pid`` of each, and ``node``, the address of its node."""
        return {number: dict(facts) for number, facts in self._actors.facts.items()}

    def close(self) -> None:
        """End all workers, with their servers, and Ray where it was started for collectors.

        Where several collectors use that Ray, it ends with the last of them.
        """
        self._actors.close()
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
            raise missing_error(self.missing, self._crew.hopeless) from self._cause

    def _is_over(self, ledger: Ledger) -> bool:
        hasty = ledger.given_up > 0 and not self._allow_missing
        return ledger.over or hasty or self._crew.hopeless is not None

    def _look(self, timeout_s: float) -> None:
        """Do what there is to do, and take what has come; wait for that at most so long."""
        # The caller may have been away for longer than a worker may take: what has come meanwhile
        # is taken first, and nobody is late whose answer is there.
        for answer in self._actors.answers(0.0):
            self._take(answer)
        for order in self._orders():
            if isinstance(order, End):
                self._actors.end(order.worker)
            elif isinstance(order, Open):
                site = None if order.server is None else self._sites[order.server]
                self._actors.open(order.worker, site)
            else:
                if self._acting is None:
                    self._acting = self._actors.store(self._version, self._policy, self._weights)
                self._actors.play(order.worker, order.work, self._amount, self._acting)
        for answer in self._actors.answers(timeout_s):
            self._take(answer)

    def _orders(self) -> list[Order]:
        """Return what is to be done; nothing more where the environments cannot be made."""
        return [] if self._fatal is not None else self._crew.orders(time.monotonic())

    def _take(self, answer: Answer) -> None:
        now_s = time.monotonic()
        number, outcome = answer.worker, answer.outcome
        if isinstance(outcome, Exception):
            self._cause = outcome
            self._crew.worker_lost(number, _words_of_ray(outcome), now_s)
        elif outcome.kind == "failed":
            self._cause = outcome.error
            if answer.played:
                self._crew.failed(number, _words(outcome.error), now_s)
            else:
                self._fatal = outcome.error
                self._crew.closed(number)
        elif outcome.kind == "lost":
            self._cause = outcome.error
            lose = self._crew.server_lost if answer.played else self._crew.refused
            lose(number, _words(outcome.error), now_s)
        elif outcome.kind == "done" and not answer.played:
            self._crew.opened(number)
        elif outcome.kind == "done":
            work = self._crew.finished(number, outcome.seconds, outcome.vector_steps, now_s)
            if work is not None:
                self._ready.append(_Ready(number, work, answer.data))

    def _fetch(self, ready: _Ready) -> Rollouts | None:
        """Bring a batch here; None where it is lost, and will be played again."""
        batch = self._actors.fetch(ready.data)
        if isinstance(batch, Exception):
            self._cause = batch
            self._crew.data_lost(ready.work, ready.worker, _words_of_ray(batch))
            return None
        self._crew.taken()
        return batch


def collect(env_id: str, **options: Any) -> Rollouts:
    """Collect once with a `Collector` of these arguments, and return all of it.

    Raises:
        RolloutsMissingError: Something is missing, and `allow_missing` is false.
        OpenEnvGymError: See `Collector`.
    """
    with Collector(env_id, **options) as collector:
        return collector.collect()


def _works(rollouts: int, per_batch: int, seed: int) -> list[Work]:
    return [
        Work(number, first, tuple(range(seed + first, seed + min(first + per_batch, rollouts))))
        for number, first in enumerate(range(0, rollouts, per_batch))
    ]


def _words(error: BaseException | None) -> str:
    text = errors.printable(str(error)).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else ''}"


def _words_of_ray(error: Exception) -> str:
    """Return what Ray says of a task that raised, or of an actor that is gone, in a line."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, BaseException):  # of a task: its words begin with the task's name
        return _words(cause)
    # They begin with the actor's name and number, and end with what happened to it.
    lines = [line.strip() for line in errors.printable(str(error)).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[-1] if lines else '':.{_WORDS}}"
