"""Sub-environments in containers: the same to the bit, and one container killed of four."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest

from openenv_gym import RemoteVectorEnv, errors
from tests.vector.worlds import same


def make(**kwargs: Any) -> RemoteVectorEnv:
    env = gymnasium.make_vec("openenv/CartPole-v1", num_envs=8, provider="docker", **kwargs)
    assert isinstance(env, RemoteVectorEnv)
    return env


def kill(docker: Any, env: RemoteVectorEnv, index: int) -> None:
    server: Any = env._fleet.members[index]._release
    docker.containers.get(server.__self__.container_id).kill()


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_to_the_bit(docker: Any, mode: str) -> None:
    ours = make(num_servers=2, autoreset_mode=mode)
    theirs = gymnasium.make_vec(
        "CartPole-v1", num_envs=8, vectorization_mode="sync", vector_kwargs={"autoreset_mode": mode}
    )
    same(ours.reset(seed=1), theirs.reset(seed=1))
    ours.action_space.seed(1)
    for _ in range(300):
        actions = ours.action_space.sample()
        same(ours.step(actions), theirs.step(actions))
    ours.close()
    theirs.close()


def test_one_of_four_is_killed(docker: Any) -> None:
    actions = np.zeros(8, int)
    env = make(num_servers=4)
    env.reset(seed=0)
    env.step(actions)
    kill(docker, env, 2)
    with pytest.raises(
        errors.ConnectionLostError, match="Sub-environments 4, 5 are lost"
    ) as caught:
        env.step(actions)
    assert caught.value.data["indices"] == [4, 5]
    env.close()


def test_one_of_four_is_killed_and_replaced(docker: Any) -> None:
    actions = np.zeros(8, int)
    env = make(num_servers=4, on_failure="restart")
    env.reset(seed=0)
    env.step(actions)
    kill(docker, env, 2)
    _, rewards, terminations, truncations, infos = env.step(actions)
    assert not terminations.any()
    assert np.flatnonzero(truncations).tolist() == [4, 5]
    assert np.flatnonzero(infos["server_restarted"]).tolist() == [4, 5]
    assert rewards.tolist() == [1, 1, 1, 1, 0, 0, 1, 1]
    assert env.step(actions)[1].tolist() == [1, 1, 1, 1, 0, 0, 1, 1]
    assert env.step(actions)[1].tolist() == [1] * 8
    env.close()
