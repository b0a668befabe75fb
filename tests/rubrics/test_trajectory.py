"""Rubrics that judge an episode when it is over."""

import asyncio

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv_gym.errors import ConfigurationError
from openenv_gym.models import Observation
from openenv_gym.rubrics import ExponentialDiscountingTrajectoryRubric, Gate, TrajectoryRubric
from tests.rubrics.scores import Ending


def play(rubric, steps):
    """Score an episode of so many steps."""
    return [
        rubric(step, Observation(done=step == steps, reward=step)) for step in range(1, steps + 1)
    ]


class Outcome(ExponentialDiscountingTrajectoryRubric):
    def score_trajectory(self, trajectory):
        return trajectory[-1][1].reward


def test_the_score_arrives_with_the_last_step():
    rubric = Ending(intermediate_reward=-0.5)
    assert play(rubric, 3) == [-0.5, -0.5, 0.3]
    assert rubric.compute_step_rewards() == [-0.5, -0.5, 0.3]
    assert [action for action, _ in rubric.trajectory] == [1, 2, 3]
    rubric.reset()
    assert rubric.trajectory == [] and rubric.compute_step_rewards() == []
    assert play(Gate(rubric, 0.1), 2) == [0.0, 0.2]


def test_an_episode_after_the_last_step_is_a_new_one():
    rubric = Ending()
    play(rubric, 3)
    assert play(rubric, 2)[-1] == 0.2


@given(st.floats(0, 1), st.integers(1, 30))
def test_credit_is_discounted_by_the_distance_from_the_end(gamma, steps):
    rubric = Outcome(gamma=gamma)
    assert rubric.compute_step_rewards() == []
    assert play(rubric, steps)[-1] == steps
    expected = [steps * gamma ** (steps - 1 - step) for step in range(steps)]
    assert rubric.compute_step_rewards() == pytest.approx(expected)


def test_a_trajectory_is_judged_once_and_may_be_judged_later():
    class Judged(ExponentialDiscountingTrajectoryRubric):
        judged = 0

        async def score_trajectory(self, trajectory):
            self.judged += 1
            return 0.5

    async def end():
        return await rubric(None, Observation(done=True))

    rubric = Judged(gamma=0.5)
    assert rubric(None, Observation()) == 0.0
    assert asyncio.run(end()) == 0.5
    assert rubric.compute_step_rewards() == [0.25, 0.5] and rubric.judged == 1


def test_what_is_kept_has_the_rewards_that_the_environment_gave():
    rubric = Ending()
    observation = Observation(reward=3)
    rubric(None, observation)
    observation.reward = 0.0  # as a server sets it
    assert rubric.trajectory[0][1].reward == 3


@pytest.mark.parametrize("field", ["max_steps", "max_bytes"])
def test_a_trajectory_is_bounded(field):
    rubric = Ending()
    rubric.max_steps, rubric.max_bytes = (3, 1 << 20) if field == "max_steps" else (100, 40_000)
    observation = Observation(metadata={"picture": np.zeros(10_000, np.uint8)})
    for _ in range(3):
        rubric(None, observation)
    for _ in range(2):
        with pytest.raises(ConfigurationError, match=rf"{field}.*keep") as caught:
            rubric(None, observation)
        assert caught.value.field == field and len(rubric.trajectory) == 3


def test_a_rubric_says_what_it_keeps():
    class Frugal(Ending):
        max_bytes = 10_000

        def keep(self, action, observation):
            return action, observation.reward

    rubric = Frugal()
    for _ in range(10):
        rubric(1, Observation(reward=2, metadata={"text": "x" * 5_000}))
    assert rubric.trajectory == [(1, 2)] * 10


def test_settings_are_saved_and_episodes_are_not():
    rubric = Outcome(gamma=0.5, intermediate_reward=0.125)
    play(rubric, 2)
    other = Outcome()
    other.load_state_dict(rubric.state_dict())
    assert (other.gamma, other.intermediate_reward, other.trajectory) == (0.5, 0.125, [])
    with pytest.raises(ConfigurationError, match="gamma"):
        other.load_state_dict({"gamma": 1.5, "intermediate_reward": 0.0})


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: Outcome(gamma=1.01), "gamma"),
        (lambda: Outcome(gamma=float("nan")), "gamma"),
        (lambda: Outcome(gamma="1"), "gamma"),
        (lambda: Outcome(intermediate_reward=float("inf")), "intermediate_reward"),
        (lambda: TrajectoryRubric(intermediate_reward=True), "intermediate_reward"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(make, field):
    with pytest.raises(ConfigurationError) as caught:
        make()
    assert caught.value.field == field
