"""Rubrics made for tests."""

import asyncio

from openenv_gym.rubrics import Rubric, TrajectoryRubric


class Fixed(Rubric):
    """Scores every step alike, and counts its calls."""

    def __init__(self, score=1.0):
        self.score = score
        self.calls = 0

    def forward(self, action, observation):
        self.calls += 1
        return self.score


class Later(Fixed):
    """The same, asynchronously."""

    async def forward(self, action, observation):
        await asyncio.sleep(0.001)
        return super().forward(action, observation)


class Failing(Rubric):
    def forward(self, action, observation):
        raise KeyError("nothing there")


class Ending(TrajectoryRubric):
    """Scores an episode by its number of steps."""

    def score_trajectory(self, trajectory):
        return len(trajectory) / 10


TEMPLATE = Fixed(0.25)
NUMBER = 3


def make_fixed() -> Rubric:
    return Fixed(0.75)


def make_unsaid():
    raise AssertionError("nobody may call this")


def make_wrong() -> Rubric:
    return 1


def make_failing() -> Rubric:
    raise OSError("no weights")
