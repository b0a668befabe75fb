"""The same market from afar: ids, vectors, data that travel, typed clients, rubrics."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence

import openenv_gym  # noqa: F401  # registers the ids
from finrl_env import FinRLAction, FinRLEnv
from openenv_gym.errors import InvalidActionError, InvalidOptionError
from tests.support.images import image

from .markets import DAYS, A, B, frame, make, play, random_actions, rows


OPTIONS = {"random_start": True, "episode_length": 90, "turbulence_threshold": 12.0}
HERE = "tests.envs.finrl.judging"


def remote(provider: str = "thread", **options: Any) -> gymnasium.Env[Any, Any]:
    return gymnasium.make("openenv/FinRL-v0", provider=provider, **options)


def assert_the_same(env: gymnasium.Env[Any, Any]) -> None:
    """A thousand random steps, as they are in this process."""
    here = make(**OPTIONS)
    actions = random_actions(here, 1000)
    assert (env.action_space, env.observation_space) == (here.action_space, here.observation_space)
    assert data_equivalence(env.reset(seed=3), here.reset(seed=3), exact=True)
    assert data_equivalence(play(env, actions), play(here, actions), exact=True)


@pytest.mark.parametrize("provider", ["thread", "process"])
def test_a_thousand_steps(provider):
    with remote(provider, **OPTIONS) as env:
        assert_the_same(env)


def test_a_thousand_steps_in_a_container(docker):
    image("finrl_env")
    with remote("docker", **OPTIONS) as env:
        assert_the_same(env)


def test_a_chart_from_a_container(docker):
    image("finrl_env")
    with remote("docker", data="generated", render_mode="rgb_array") as env:
        env.reset(seed=0)
        assert env.render().shape == (360, 640, 3)


def test_a_vector():
    envs = gymnasium.make_vec(
        "openenv/FinRL-v0", num_envs=3, num_servers=1, provider="thread", **OPTIONS
    )
    single = make(**OPTIONS)
    observations, infos = envs.reset(seed=7)
    actions = random_actions(envs, 50)
    steps = [envs.step(action) for action in actions]
    envs.close()
    for index in range(3):
        observation, info = single.reset(seed=7 + index)
        assert (observations[index] == observation).all()
        assert infos["date"][index] == info["date"]
        for action, (seen, rewards, _, _, told) in zip(actions, steps, strict=True):
            observation, reward, _, _, info = single.step(action[index])
            assert (seen[index] == observation).all() and rewards[index] == reward
            assert (told["traded"][index] == info["traded"]).all()


@pytest.mark.parametrize(
    "data",
    [
        rows(A=A, B=B),
        {"date": DAYS * 2, "tic": ["A"] * 10 + ["B"] * 10, "close": np.array(A + B)},
        {"date": DAYS * 2, "tic": ["A"] * 10 + ["B"] * 10, "close": A + B},
    ],
    ids=["rows", "arrays", "columns"],
)
def test_data_that_travel(data):
    with remote(data=data, tech_indicator_list=[], num_stock_shares=[1, 2]) as env:
        observation, info = env.reset()
        assert observation.tolist() == [1e6, 10.0, 50.0, 1.0, 2.0]
        assert info["portfolio_value"] == 1_000_110.0


def test_a_frame_as_the_readme_sends_it():
    table = frame(days=40)
    data = table.assign(date=table["date"].astype(str)).to_dict("list")
    here = make(data=table)
    with remote(data=data) as env:
        assert data_equivalence(env.reset(seed=0), here.reset(seed=0), exact=True)


def test_what_is_wrong_with_data_is_told_from_afar():
    data = rows(A=A)
    data[3]["close"] = "ten"
    with pytest.raises(InvalidOptionError, match="row 4: column 'close' holds 'ten'") as caught:
        remote(data=data, tech_indicator_list=[])
    assert caught.value.field == "data"


def test_a_wrong_action_is_told_from_afar():
    with remote(data=rows(A=A, B=B), tech_indicator_list=[]) as env:
        env.reset()
        for action in (np.float32([2.0, 0.0]), np.float32([0.0]), np.float32([np.nan, 0.0])):
            with pytest.raises((InvalidActionError, AssertionError)):
                env.step(action)
        assert env.step(np.float32([1.0, 0.0]))[4]["date"] == DAYS[1]


def test_a_saved_state_travels():
    with remote(data="generated") as first, remote("process", data="generated") as second:
        first.reset(seed=0)
        actions = random_actions(first, 20)
        play(first, actions)
        saved = first.unwrapped.openenv.save_state()
        second.unwrapped.openenv.restore_state(saved)
        expected = first.unwrapped.step(actions[0])
        assert data_equivalence(second.unwrapped.step(actions[0]), expected, exact=True)


def test_a_rubric_takes_the_place_of_the_gain():
    options = {"data": rows(A=A, B=B), "tech_indicator_list": [], "hmax": 10}
    with remote(**options, rubric=f"{HERE}:gain_and_thrift") as env, remote(**options) as plain:
        for each in (env, plain):
            each.reset()
        for _ in range(9):
            action = np.float32([1.0, -0.5])
            _, reward, _, truncated, info = env.step(action)
            _, gain, _, _, told = plain.step(action)
            assert reward == pytest.approx((gain - told["cost"]) / 2)
            assert gain in info["reward_components"].values()
        assert truncated


@pytest.mark.parametrize("protocol", ["binary", "json"])
def test_the_typed_client(protocol):
    with FinRLEnv.from_env("finrl_env", provider="process", protocol=protocol).sync() as client:
        assert client.get_config() == {
            "stock_dim": 3,
            "initial_amount": 1_000_000.0,
            "action_space": 3,
            "state_space": 31,
            "tech_indicators": make().environment.state.tech_indicators,
        }
        first = client.reset(seed=0)
        assert (first.observation.date, first.observation.portfolio_value) == ("2000-03-02", 1e6)
        assert isinstance(first.observation.state, list) and len(first.observation.state) == 31
        result = client.step(FinRLAction(actions=[1.0, 0.0, -1.0]))
        assert result.observation.state[4:7] == [100.0, 0.0, 0.0]
        assert result.observation.date == "2000-03-03" and not result.done
        assert result.reward == pytest.approx(1e-4 * (result.observation.portfolio_value - 1e6))
        with pytest.raises(InvalidActionError, match="actions"):
            client.step(FinRLAction(actions=[1.0]))
        assert client.state().shares == [100, 0, 0]
