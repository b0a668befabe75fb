"""Rubrics that replace the rewards of games, alone and in vectors."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

import openenv_gym  # noqa: F401  # registers the ids
from openenv_gym.errors import InvalidOptionError
from openenv_gym.rubrics import ExponentialDiscountingTrajectoryRubric, Rubric, WeightedSum

from .play import make, random_actions, same


class Score(Rubric):
    """Ten times the game's own reward."""

    def forward(self, action, observation) -> float:
        return 10.0 * observation.reward


class Bright(Rubric):
    """How bright the screen is."""

    def forward(self, action, observation) -> float:
        return float(observation.screen.mean())


def parts() -> WeightedSum:
    """Return a rubric of two parts."""
    return WeightedSum([Score(), Bright()], [0.5, 0.5])


class LivesLeft(ExponentialDiscountingTrajectoryRubric):
    """What a whole game is worth."""

    def score_trajectory(self, trajectory) -> float:
        return float(trajectory[-1][1].metadata["lives"] + 1)


@pytest.mark.parametrize(
    "options", [{}, {"preprocess": True}, {"continuous": True, "obs_type": "ram"}], ids=str
)
def test_a_rubric_replaces_the_reward_and_finds_it(options):
    plain = make(game="breakout", **options)
    scored = make(game="breakout", rubric=parts(), **options)
    assert plain.environment.rubric is None
    assert same(plain.reset(seed=2), scored.reset(seed=2))
    for action in random_actions(plain, 100):
        one, other = plain.step(action), scored.step(action)
        components = other[4].pop("reward_components")
        assert same((one[0], *one[2:]), (other[0], *other[2:]))
        bright = float(one[0].mean())
        assert components == {"rubric_0": 10.0 * one[1], "rubric_1": bright}
        assert other[1] == pytest.approx(5.0 * one[1] + bright / 2)
        if one[2] or one[3]:
            assert same(plain.reset(), scored.reset())


def test_a_game_is_scored_at_its_end_also_where_it_is_both_over_and_cut():
    # The last frame that is allowed: truncated, whatever else it is.
    env = make(obs_type="ram", max_num_frames_per_episode=20, rubric=LivesLeft(gamma=0.5))
    env.reset(seed=0)
    for _ in range(4):
        assert env.step(0)[1] == 0.0
    *_, reward, _, truncated, info = env.step(0)
    assert truncated and reward == 1.0
    assert info["step_rewards"].tolist() == [0.0625, 0.125, 0.25, 0.5, 1.0]


def test_a_vector_of_preprocessed_games_is_scored_game_by_game():
    envs = gymnasium.make_vec(
        "openenv/Atari-v0",
        num_envs=2,
        game="breakout",
        preprocess=True,
        rubric=f"{__name__}:Bright",
        provider="thread",
    )
    envs.reset(seed=0)
    observations, rewards, *_ = envs.step(np.array([1, 2]))
    envs.close()
    assert rewards.tolist() == pytest.approx([float(each.mean()) for each in observations])


def test_the_engine_by_name_has_no_steps_to_score():
    with pytest.raises(InvalidOptionError, match="rubric could score") as caught:
        gymnasium.make_vec(
            "openenv/Atari-v0",
            num_envs=2,
            preprocess=True,
            rubric=f"{__name__}:Bright",
            engine="native",
            provider="thread",
        )
    assert caught.value.field == "rubric"
