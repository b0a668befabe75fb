"""Rubrics of OpenEnv and of this library, side by side: ``python their_rubrics.py SITE``.

The argument is where OpenEnv is. Of it the rubrics alone are imported: the rest wants packages of
other versions than ours. What fails, fails as an assertion.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import math
import sys
import types
from pathlib import Path
from typing import Any


for name in ("openenv", "openenv.core"):
    sys.modules[name] = package = types.ModuleType(name)
    package.__path__ = [str(Path(sys.argv[1], *name.split(".")))]

from openenv.core import rubrics as theirs  # noqa: E402

from openenv_gym import rubrics as ours  # noqa: E402
from openenv_gym.models import Observation  # noqa: E402
from openenv_gym.rubrics import load_rubric  # noqa: E402
from openenv_gym.server.scoring import begin_scoring, score_step  # noqa: E402


SCORES = (0.0, 0.25, 1.0, -0.5)


def score_of(rubric: Any, action: Any = None, observation: Any = None) -> float:
    """Return a score, whenever it comes."""

    async def wait(found: Any) -> Any:
        return await found

    found = rubric(action, observation)
    return float(asyncio.run(wait(found)) if inspect.isawaitable(found) else found)


def fixed(library: Any, value: float, *, later: bool = False) -> Any:
    """Make a rubric of either library that scores everything alike."""

    class Now(library.Rubric):
        def forward(self, action: Any, observation: Any) -> float:
            return value

    class Later(library.Rubric):
        async def forward(self, action: Any, observation: Any) -> float:
            return value

    return Later() if later else Now()


def trees(library: Any, first: float, second: float, later: bool) -> list[Any]:
    """Make one of each container."""
    parts = [fixed(library, first, later=later), fixed(library, second)]
    return [
        library.Sequential(*parts),
        library.Sequential(library.Gate(parts[0], 0.5), library.Gate(parts[1])),
        library.WeightedSum(parts, [0.25, 0.75]),
        library.Gate(library.WeightedSum(parts, [0.5, 0.5]), threshold=0.1),
    ]


class Length(theirs.ExponentialDiscountingTrajectoryRubric):
    """A rubric as somebody wrote it for OpenEnv."""

    def score_trajectory(self, trajectory: Any) -> float:
        """Return the number of steps."""
        return float(len(trajectory))


class Chosen(theirs.Rubric):
    """Another one, with parts; both run only for an action that is true."""

    def __init__(self) -> None:
        super().__init__()
        self.always = fixed(theirs, 0.5)
        self.length = Length(gamma=0.5)
        self.mixed = ours.WeightedSum([fixed(theirs, 1.0), fixed(ours, 0.0)], [0.5, 0.5])

    def forward(self, action: Any, observation: Any) -> Any:
        """Return the score."""
        length = self.length(action, observation)
        return length + self.always(action, observation) if action else length


def check_containers() -> None:
    """Compare scores and names of all containers."""
    for first, second, later in itertools.product(SCORES, SCORES, (False, True)):
        for one, other in zip(
            trees(theirs, first, second, later), trees(ours, first, second, later), strict=True
        ):
            assert score_of(one) == score_of(other) == one.last_score == other.last_score
            names = [name for name, _ in one.named_rubrics()]
            assert names == [name for name, _ in other.named_rubrics()]


def check_trajectories() -> None:
    """Compare the credit of steps."""

    class Own(ours.ExponentialDiscountingTrajectoryRubric):
        def score_trajectory(self, trajectory: Any) -> float:
            return float(len(trajectory))

    one, other = Length(gamma=0.9, intermediate_reward=0.1), Own(0.9, 0.1)
    assert one.state_dict() == other.state_dict()
    for step in range(5):
        observation = Observation(done=step == 4)
        assert one(step, observation) == other(step, observation)
    assert one.compute_step_rewards() == other.compute_step_rewards()


def check_scoring() -> None:
    """Have our server's module apply theirs."""
    rubric = load_rubric(Chosen())
    for _ in range(2):
        begin_scoring(rubric)
        score_step(rubric, 0, seen := Observation())
        scores = seen.metadata["reward_components"]
        assert seen.reward == 0.0 and math.isnan(scores["always"]) and scores["length"] == 0.0
        score_step(rubric, 1, seen := Observation(done=True))
        assert seen.reward == 2.5
        assert seen.metadata["reward_components"]["length"] == 2.0
    begin_scoring(length := load_rubric(Length(gamma=0.5)))
    score_step(length, 0, Observation())
    score_step(length, 0, seen := Observation(done=True))
    assert seen.metadata["step_rewards"].tolist() == [1.0, 2.0]
    score_step(load_rubric(f"{__name__}:Chosen"), 1, seen := Observation())
    assert seen.reward == 0.5
    mixed = ours.Sequential(Chosen().mixed, theirs.Gate(fixed(theirs, 0.5, later=True), 0.25))
    score_step(mixed, 1, seen := Observation())
    assert seen.reward == 0.5
    assert seen.metadata["reward_components"]["rubric_1.rubric"] == 0.5


check_containers()
check_trajectories()
check_scoring()
