"""To the bit what `SyncVectorEnv` does, whatever the autoreset mode and the number of servers."""

from __future__ import annotations

from collections.abc import Callable

import gymnasium
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from openenv_gym import RemoteVectorEnv
from tests.vector.rollouts import play
from tests.vector.worlds import Fleet, WorldEnv


MODES = list(AutoresetMode)
STEPS = 2000


@pytest.mark.parametrize("num_servers", [1, 2, 4])
@pytest.mark.parametrize("mode", MODES)
def test_everything_an_environment_may_return(
    fleet: Callable[..., Fleet], mode: AutoresetMode, num_servers: int
) -> None:
    ours = fleet(WorldEnv, 6, num_servers, autoreset_mode=mode).env
    theirs = SyncVectorEnv([WorldEnv] * 6, autoreset_mode=mode)
    assert ours.single_observation_space == theirs.single_observation_space
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    assert ours.metadata == theirs.metadata
    play(theirs, ours, steps=STEPS)
    theirs.close()


@pytest.mark.parametrize("num_servers", [1, 2, 4])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1", "Taxi-v4", "Blackjack-v1"])
def test_gymnasiums_environments(name: str, mode: AutoresetMode, num_servers: int) -> None:
    if name not in gymnasium.registry:
        name = "Taxi-v3"
    steps = STEPS if num_servers == 2 else STEPS // 20
    ours = gymnasium.make_vec(
        f"openenv/{name}",
        num_envs=4,
        num_servers=num_servers,
        provider="thread",
        autoreset_mode=mode.value,
    )
    assert isinstance(ours, RemoteVectorEnv)
    theirs = gymnasium.make_vec(
        name, num_envs=4, vectorization_mode="sync", vector_kwargs={"autoreset_mode": mode}
    )
    play(theirs, ours, steps=steps)
    ours.close()
    theirs.close()


@pytest.mark.parametrize("mode", MODES)
def test_in_processes(mode: AutoresetMode) -> None:
    ours = gymnasium.make_vec(
        "openenv/CartPole-v1", num_envs=4, num_servers=2, provider="process", autoreset_mode=mode
    )
    theirs = gymnasium.make_vec(
        "CartPole-v1", num_envs=4, vectorization_mode="sync", vector_kwargs={"autoreset_mode": mode}
    )
    play(theirs, ours, steps=STEPS)
    ours.close()
    theirs.close()


@pytest.mark.parametrize("mode", MODES)
def test_made_from_functions(mode: AutoresetMode) -> None:
    functions = [lambda length=length: WorldEnv(length=length) for length in (2, 5, 9)]
    ours = RemoteVectorEnv(functions, autoreset_mode=mode)
    theirs = SyncVectorEnv(functions, autoreset_mode=mode)
    play(theirs, ours, steps=300)
    ours.close()
    theirs.close()
