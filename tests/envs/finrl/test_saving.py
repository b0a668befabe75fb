"""Episodes saved and brought back."""

from __future__ import annotations

import copy

import pytest
from gymnasium.utils.env_checker import data_equivalence

from finrl_env.server.finrl_environment import FinRLEnvironment
from openenv_gym.errors import InvalidOptionError, ResetNeededError

from .markets import bare, frame, make, play, random_actions


def is_plain(value) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str) and is_plain(item) for key, item in value.items())
    if isinstance(value, list):
        return all(map(is_plain, value))
    return value is None or type(value) in (bool, int, float, str)


@pytest.mark.parametrize("steps", [0, 1, 17, 29])
def test_a_saved_state_brings_back_everything(steps):
    options = {"data": "generated", "random_start": True, "episode_length": 30}
    env = make(**options, render_mode="ansi")
    env.reset(seed=5)
    play(env, random_actions(env, 45 + steps))
    saved = copy.deepcopy(env.environment.save_state())
    seen, state = env.render(), env.environment.state
    assert is_plain(saved)
    actions = random_actions(env, 100, seed=1)
    expected = play(env, actions)
    other = make(**options, render_mode="ansi")
    for restored in (env, other):
        restored.environment.restore_state(saved)
        assert (restored.render(), restored.environment.state) == (seen, state)
        assert restored.environment.save_state() == saved
        assert data_equivalence(play(restored, actions), expected, exact=True)


def test_a_finished_episode_can_be_saved():
    environment = bare(episode_length=1)
    environment.reset(seed=0)
    environment.step(environment.action_model(actions=[0.0, 0.0]))
    other = bare(episode_length=1)
    other.restore_state(environment.save_state())
    with pytest.raises(ResetNeededError):
        other.step(environment.action_model(actions=[0.0, 0.0]))


def test_a_branch_does_not_touch_what_was_saved():
    environment = bare()
    environment.reset(seed=0)
    saved = environment.save_state()
    before = copy.deepcopy(saved)
    for sign in (1.0, -1.0):
        environment.restore_state(saved)
        for _ in range(3):
            environment.step(environment.action_model(actions=[sign, sign]))
    assert saved == before


def test_what_is_no_saved_state_is_refused():
    environment = bare()
    environment.reset(seed=0)
    saved = environment.save_state()
    for wrong in (
        None,
        {},
        [],
        {**saved, "version": 2},
        {**saved, "begin": -1},
        {**saved, "end": 10},
        {**saved, "values": []},
        {**saved, "values": [1.0] * 11},
        {**saved, "values": [float("nan")]},
        {**saved, "cash": -1.0},
        {**saved, "cash": "much"},
        {**saved, "shares": [1]},
        {**saved, "shares": [1, -1]},
        {**saved, "shares": [0.5, 1.0]},
        {**saved, "shares": [[1], [1, 2]]},
        {**saved, "np_random": {"bit_generator": "Generator"}},
        {name: value for name, value in saved.items() if name != "end"},
    ):
        with pytest.raises(InvalidOptionError) as caught:
            environment.restore_state(wrong)
        assert caught.value.field == "saved"
    assert environment.save_state() == saved


def test_a_state_of_another_market_is_refused():
    environments = [
        FinRLEnvironment(frame(days=50, seed=seed), tech_indicator_list=[]) for seed in (1, 2)
    ]
    environments[0].reset(seed=0)
    with pytest.raises(InvalidOptionError, match="it is one of"):
        environments[1].restore_state(environments[0].save_state())
