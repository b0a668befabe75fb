"""Many parallel environments, moved together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from openenv_gym import errors
from openenv_gym.pettingzoo import vector_env
from tests.multi_agent.worlds import Sums
from tests.support.serving import serving


SUMS = "tests.multi_agent.worlds:Sums"


def actions_of(envs: Any, generator: np.random.Generator) -> dict[str, Any]:
    return {agent: generator.integers(5, size=envs.num_envs) for agent in envs.possible_agents}


@pytest.mark.parametrize("num_servers", [1, 2, 3])
def test_each_environment_is_as_it_is_alone(num_servers: int) -> None:
    envs = vector_env(SUMS, num_envs=5, num_servers=num_servers, provider="thread")
    alone = [Sums() for _ in range(5)]
    observations, infos = envs.reset(seed=11, options={"a": 1})
    expected = [env.reset(11 + index, {"a": 1}) for index, env in enumerate(alone)]
    generator = np.random.default_rng(2)
    for agent in envs.possible_agents:
        assert observations[agent].shape == (5, 2)
        assert envs.alive[agent].all()
    assert infos == [info for _, info in expected]
    for _ in range(20):
        actions = actions_of(envs, generator)
        observations, rewards, terminations, truncations, infos = envs.step(actions)
        for index, env in enumerate(alone):
            if env.agents:
                given = {agent: actions[agent][index] for agent in env.agents}
                now: Any = env.step(given)
            else:
                first, info = env.reset()
                now = (first, {}, {}, {}, info)
            assert infos[index] == now[4]
            for agent in envs.possible_agents:
                row = now[0].get(agent, np.zeros(2, np.float32))
                assert np.array_equal(observations[agent][index], row)
                assert rewards[agent][index] == now[1].get(agent, 0.0)
                assert terminations[agent][index] == now[2].get(agent, False)
                assert truncations[agent][index] == now[3].get(agent, False)
                assert envs.alive[agent][index] == (agent in env.agents)
    assert rewards["player_0"].dtype == np.float64
    assert terminations["player_0"].dtype == envs.alive["player_0"].dtype == np.bool_
    envs.close()
    envs.close()


def test_one_request_to_each_server_is_a_step() -> None:
    envs = vector_env(SUMS, num_envs=8, num_servers=2, provider="thread")
    envs.reset(seed=1)
    connections = [each.connection for each in envs._sessions]
    before = [each.frames_sent for each in connections]
    for _ in range(3):
        envs.step(actions_of(envs, np.random.default_rng(0)))
    assert [each.frames_sent for each in connections] == [count + 3 for count in before]
    envs.close()


def test_spaces() -> None:
    envs = vector_env(SUMS, num_envs=3, num_servers=2, provider="thread")
    assert envs.single_action_space("player_1").n == 10
    assert envs.action_space("player_1").shape == (3,)
    observations, _ = envs.reset(seed=[5, None, 7])
    assert observations["player_2"] in envs.observation_space("player_2")
    assert envs.single_observation_space("player_2").shape == (2,)
    envs.close()


def test_observations_that_are_dictionaries() -> None:
    envs = vector_env("classic/connect_four-v3", num_envs=4, num_servers=2, provider="thread")
    observations, _ = envs.reset(seed=0)
    assert observations["player_0"]["observation"].shape == (4, 6, 7, 2)
    assert observations["player_0"]["action_mask"].all()
    actions = {agent: np.array([0, 1, 2, 3]) for agent in envs.possible_agents}
    observations, *_ = envs.step(actions)
    assert [observations["player_0"]["observation"][i, 5, i, 0] for i in range(4)] == [1] * 4
    envs.close()


def test_pictures() -> None:
    envs = vector_env(SUMS, num_envs=3, num_servers=2, provider="thread", render_mode="rgb_array")
    envs.reset()
    assert [frame.shape for frame in envs.render()] == [(4, 4, 3)] * 3
    envs.close()


def test_a_server_that_runs_already() -> None:
    with serving(Sums, max_envs=4) as url:
        envs = vector_env(base_url=url, num_envs=4, players=2)
        assert envs.possible_agents == ["player_0", "player_1"]
        envs.close()
        with pytest.raises(errors.InvalidOptionError, match="1 to 4"):
            vector_env(base_url=url, num_envs=5)


@pytest.mark.parametrize("num_servers", [1, 2])
def test_wrong_actions(num_servers: int) -> None:
    envs = vector_env(SUMS, num_envs=3, num_servers=num_servers, provider="thread", players=2)
    right = {agent: np.ones(3, int) for agent in envs.possible_agents}
    with pytest.raises(errors.ResetNeededError):
        envs.step(right)
    envs.reset(seed=1)
    with pytest.raises(errors.InvalidActionError, match="player_1"):
        envs.step({"player_0": np.ones(3, int)})
    with pytest.raises(errors.InvalidActionError, match="player_1"):
        envs.step({**right, "player_1": np.ones(2, int)})
    envs.step(right)
    with pytest.raises(errors.InvalidOptionError, match="seeds"):
        envs.reset(seed=[1, 2])
    envs.close()


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"num_envs": 0}, "num_envs"),
        ({"num_envs": True}, "num_envs"),
        ({"num_envs": 2, "num_servers": 0}, "num_servers"),
        ({"num_envs": 2, "render_mode": "human"}, "render_mode"),
    ],
)
def test_wrong_options(options: dict[str, Any], field: str) -> None:
    with pytest.raises(errors.InvalidOptionError) as caught:
        vector_env(SUMS, provider="thread", **options)
    assert caught.value.field == field


def test_agents_that_are_not_known_beforehand() -> None:
    with pytest.raises(errors.InvalidOptionError, match="possible_agents"):
        vector_env("tests.multi_agent.worlds:generated_parallel", num_envs=2, provider="thread")
