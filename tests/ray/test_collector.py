"""The driver without Ray: its actors are played by a list of answers, its clock by a number."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from openenv_gym import errors
from openenv_gym.ray import Collector, collector
from openenv_gym.ray.actors import Answer
from openenv_gym.ray.worker import Outcome


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s


class Actors:
    """Workers that are done at once with whatever they are told: some time later it is heard."""

    made: list[Actors]
    clock: Clock
    closed = False

    def __init__(self, *arguments: Any) -> None:
        self.made.append(self)
        self.facts: dict[int, dict[str, Any]] = {}
        self.ended: list[int] = []
        self.opened = 0
        self.open_outcome: Any = Outcome("done")
        self.play_outcome: Any = Outcome("done", seconds=1.0, vector_steps=1)
        self.fetched: Any = None
        self._answers: list[tuple[float, Answer]] = []

    def store(self, *arguments: Any) -> Any:
        return None

    def open(self, number: int, server: Any) -> None:
        self.opened += 1
        self._told(Answer(number, False, self.open_outcome, None))

    def play(self, number: int, work: Any, *arguments: Any) -> None:
        self._told(Answer(number, True, self.play_outcome, work))

    def end(self, number: int) -> None:
        self.ended.append(number)
        self._answers = [each for each in self._answers if each[1].worker != number]

    def answers(self, timeout_s: float) -> Iterator[Answer]:
        self.clock.now_s += timeout_s
        come = [answer for told_s, answer in self._answers if told_s < self.clock.now_s]
        self._answers = [each for each in self._answers if each[1] not in come]
        yield from come

    def _told(self, answer: Answer) -> None:
        self._answers.append((self.clock.now_s, answer))

    def fetch(self, data: Any) -> Any:
        return self.fetched or SimpleNamespace(num_steps=1, num_episodes=1, work=data)

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(collector, "time", made)
    monkeypatch.setattr(collector, "Actors", Actors)
    monkeypatch.setattr(Actors, "made", [], raising=False)
    monkeypatch.setattr(Actors, "clock", made, raising=False)
    return made


def collecting(**options: Any) -> tuple[Collector, Actors]:
    how = {"rollouts": 12, "num_envs": 2, "steps": 1, "num_workers": 2, **options}
    made = Collector("openenv/CartPole-v1", **how)
    return made, Actors.made[-1]


def test_a_caller_who_is_slower_than_every_limit_loses_nothing(clock: Clock) -> None:
    made, actors = collecting(start_timeout_s=5.0, batch_timeout_s=20.0)
    batches = []
    for batch in made:
        batches.append(batch.work.batch)
        clock.now_s += 1000.0  # a trainer takes its step
    assert sorted(batches) == list(range(6))
    assert (made.losses, made.missing, actors.ended) == (0, [], [])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("copy", False),
        ("on_failure", "restart"),
        ("autoreset_mode", "SameStep"),
        ("observation_mode", "different"),
    ],
)
def test_an_option_with_which_rollouts_are_wrong_is_refused(
    clock: Clock, name: str, value: Any
) -> None:
    with pytest.raises(errors.InvalidOptionError, match=f"{name}={value!r}") as caught:
        collecting(**{name: value})
    assert caught.value.field == name
    assert Actors.made == []  # before Ray is asked for anything
    collecting(copy=True, autoreset_mode="NextStep")


def test_environments_that_cannot_be_made_say_so_in_each_collection(clock: Clock) -> None:
    made, actors = collecting()
    actors.open_outcome = Outcome("failed", ValueError("no such game"))
    for collections in (1, 2):
        with pytest.raises(ValueError, match="no such game"):
            made.collect()
        assert actors.opened == collections  # nobody tries again what cannot be
        assert clock.now_s < 10.0  # nor waits for it
    actors.open_outcome = Outcome("done")
    assert len(list(made)) == 6 and made.losses == 0


class TaskError(Exception):
    """As Ray's: its words begin with the name of the task, and it has a cause."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(f"ray::Worker.play() (pid=7)\n  File x\nValueError: {cause}")
        self.cause = cause


class ActorError(Exception):
    """As Ray's: its words begin with names and numbers of the actor."""


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        (TaskError(ValueError("no cluster here\nat all")), "ValueError: no cluster here"),
        (ActorError("Gone. " * 900), f"ActorError: {'Gone. ' * 40}\n"),
        (
            ActorError("The actor died.\n\tactor_id: 17\nModuleNotFoundError: no poker\n\n"),
            "ActorError: ModuleNotFoundError: no poker",
        ),
    ],
    ids=["task", "words", "actor"],
)
def test_what_a_worker_died_of_is_told(clock: Clock, outcome: Exception, words: str) -> None:
    made, actors = collecting(attempts=1)
    actors.play_outcome = outcome
    with pytest.raises(errors.RolloutsMissingError, match=f"worker 0 is lost: {words}") as caught:
        made.collect()
    assert caught.value.__cause__ is outcome


def test_why_a_batch_is_lost_that_was_there_is_told(clock: Clock) -> None:
    made, actors = collecting(attempts=1)
    actors.fetched = ActorError("Object 17\nThe node has gone.")
    with pytest.raises(errors.RolloutsMissingError, match="ActorError: The node has gone") as e:
        made.collect()
    assert e.value.__cause__ is actors.fetched
