"""Rubrics that replace the rewards of games."""

from __future__ import annotations

import gymnasium
import pytest

import openenv_gym  # noqa: F401  # registers the ids
from openenv_gym.errors import InvalidOptionError
from openenv_gym.rubrics import Rubric, WeightedSum
from openspiel_env.server.blackjack import TextBlackjackEnvironment
from openspiel_env.server.openspiel_environment import OpenSpielEnvironment

from .play import make, make_blackjack


class Won(Rubric):
    """The game's own reward."""

    def forward(self, action, observation) -> float:
        return float(observation.reward or 0.0)


class Brief(Rubric):
    """An answer of one word."""

    def forward(self, action, observation) -> float:
        return float(len(action.message.split()) == 1)


class Careful(Rubric):
    """Cards that are not bust, by what the info says."""

    def forward(self, action, observation) -> float:
        return float(observation.metadata["player_total"] <= 21)


def parts() -> WeightedSum:
    """Return a rubric of two parts."""
    return WeightedSum([Won(), Brief()], [0.5, 0.5])


def test_games_have_their_own_rewards_by_default():
    assert OpenSpielEnvironment().rubric is TextBlackjackEnvironment().rubric is None


def test_a_rubric_replaces_the_reward_and_finds_it():
    env = make_blackjack(rubric=parts())
    plain = make_blackjack()
    for seed in range(5):
        env.reset(seed=seed)
        plain.reset(seed=seed)
        own = plain.step("stand")[1]
        assert env.step("stand")[1] == 0.5 * own + 0.5
        env.reset(seed=seed)
        _, reward, *_, info = env.step("I think that I shall stand")
        assert reward == 0.5 * own
        assert own in info["reward_components"].values()


def test_a_rubric_may_judge_by_the_info_and_by_any_game():
    env = make_blackjack(rubric=Careful())
    env.reset(seed=0)
    assert env.step("stand")[1] == 1.0
    env = make("tic_tac_toe", rubric=Won())
    env.reset(seed=0)
    env.step(4)
    assert env.step(4)[1] == -1.0


def test_a_rubric_is_named_by_its_module():
    env = gymnasium.make(
        "openenv/TextBlackjack-v0", rubric=f"{__name__}:Careful", provider="thread"
    )
    env.reset(seed=0)
    assert env.step("stand")[1] == 1.0
    env.close()


@pytest.mark.parametrize("make_environment", [OpenSpielEnvironment, TextBlackjackEnvironment])
def test_what_is_no_rubric_is_refused(make_environment):
    for wrong in ("nowhere:Rubric", "math:pi", 7):
        with pytest.raises(InvalidOptionError) as caught:
            make_environment(rubric=wrong)
        assert caught.value.field == "rubric"
