"""Rewards by a rubric for environments of Gymnasium, which know of none."""

import gymnasium
import numpy as np
import pytest

import openenv_gym  # noqa: F401
from openenv_gym import errors
from openenv_gym.rubrics import (
    ExponentialDiscountingTrajectoryRubric,
    Rubric,
    TrajectoryRubric,
)
from openenv_gym.server import load_app
from tests.support.serving import serving


HERE = "tests.server.test_scored_env"


class Upright(Rubric):
    """Looks at samples: the angle of CartPole's pole, and what its own reward is."""

    def forward(self, action, observation):
        assert action in (0, 1) and observation.reward == 1.0
        return float(-abs(observation.value[2]))


class Length(ExponentialDiscountingTrajectoryRubric):
    def __init__(self):
        super().__init__(gamma=1.0)
        self.upright = Upright()

    def score_trajectory(self, trajectory):
        return len(trajectory) + self.upright(*trajectory[-1])


@pytest.fixture(scope="module")
def hosted():
    with serving(load_app("gymnasium"), capacity=8) as address:
        yield address


@pytest.mark.parametrize("num_envs", [None, 2])
def test_hosted_environments_take_a_rubric(hosted, num_envs):
    options = {"base_url": hosted, "env_id": "CartPole-v1", "rubric": f"{HERE}:Length"}
    if num_envs is None:
        env = gymnasium.make("openenv/Remote-v0", **options)
        local = gymnasium.make("CartPole-v1")
    else:
        env = gymnasium.make_vec("openenv/Remote-v0", num_envs=num_envs, **options)
        local = gymnasium.make_vec("CartPole-v1", num_envs=num_envs, vectorization_mode="sync")
    env.reset(seed=1)
    local.reset(seed=1)
    action = 1 if num_envs is None else np.ones(num_envs, np.int64)
    steps = 0
    terminated = False
    while not np.any(terminated):
        steps += 1
        observation, reward, terminated, _, info = env.step(action)
        np.testing.assert_array_equal(observation, local.step(action)[0])
        assert np.any(terminated) or not np.any(reward)
    ended = np.flatnonzero(terminated)[0]
    score = np.ravel(reward)[ended]
    angle = np.reshape(observation, (-1, 4))[ended, 2]
    assert score == pytest.approx(steps - abs(angle))
    credit = info["step_rewards"] if num_envs is None else info["step_rewards"][ended]
    assert credit.tolist() == [score] * steps
    env.close()
    local.close()


@pytest.mark.parametrize("make", [gymnasium.make, gymnasium.make_vec])
def test_a_hosted_environment_ends_for_its_rubric_as_for_its_trainer(hosted, make):
    options = {"env_id": "FrozenLake-v1", "is_slippery": False, "rubric": f"{HERE}:Steps"}
    env = make("openenv/Remote-v0", base_url=hosted, **options)
    for _ in range(2):
        env.reset(seed=1)
        rewards = []
        truncated = False
        while not truncated:
            action = 0 if make is gymnasium.make else np.zeros(1, np.int64)  # into the wall
            _, reward, _, truncated, info = env.step(action)
            rewards.append(float(np.squeeze(reward)))
        assert rewards == [0.0] * 99 + [100.0]
        credit = info["step_rewards"]
        assert len(credit if make is gymnasium.make else credit[0]) == 100
    env.close()


class Steps(TrajectoryRubric):
    def score_trajectory(self, trajectory):
        assert trajectory[-1][1].truncated
        return len(trajectory)


def test_a_vectorised_implementation_has_no_steps_to_score(hosted):
    with pytest.raises(errors.InvalidOptionError, match="Leave out engine"):
        gymnasium.make_vec(
            "openenv/Remote-v0",
            num_envs=2,
            base_url=hosted,
            env_id="CartPole-v1",
            rubric=f"{HERE}:Upright",
            engine="native",
        )
