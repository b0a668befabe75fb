"""Sub-environments in containers are to the bit what `SyncVectorEnv` has here."""

from __future__ import annotations

from typing import Any

import gymnasium
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from openenv_gym import RemoteVectorEnv
from tests.vector.rollouts import play
from tests.vector.shared import SharedServers


pytestmark = pytest.mark.container

ale_py = pytest.importorskip("ale_py")
gymnasium.register_envs(ale_py)

# Gymnasium before 1.3 has the version before.
TAXI = "Taxi-v4" if "Taxi-v4" in gymnasium.registry else "Taxi-v3"
NAMES = ["CartPole-v1", TAXI, "Pendulum-v1", "Blackjack-v1", "ALE/Pong-v5"]


@pytest.mark.parametrize("mode", AutoresetMode)
@pytest.mark.parametrize("name", NAMES)
def test_to_the_bit(containers: SharedServers, name: str, mode: AutoresetMode) -> None:
    # With a limit of its own, for episodes must end in few steps.
    assert compare(containers, name, mode, steps=200, max_episode_steps=37) >= 20


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mode", AutoresetMode)
@pytest.mark.parametrize("name", NAMES)
def test_to_the_bit_for_long(containers: SharedServers, name: str, mode: AutoresetMode) -> None:
    assert compare(containers, name, mode, steps=2000) >= 4


def compare(
    containers: SharedServers, name: str, mode: AutoresetMode, *, steps: int, **kwargs: Any
) -> int:
    """Compare four sub-environments on one, two and four servers; return how many episodes ended.

    All are compared with one rollout, of which an Atari game's frames take most of the time.
    """
    theirs = SyncVectorEnv([lambda: gymnasium.make(name, **kwargs)] * 4, autoreset_mode=mode)
    if name == "ALE/Pong-v5":
        name, kwargs = "Atari-v0", {**kwargs, "game": "pong"}
    ours = [
        gymnasium.make_vec(
            f"openenv/{name}",
            num_envs=4,
            num_servers=num_servers,
            provider=containers,
            autoreset_mode=mode,
            **kwargs,
        )
        for num_servers in (1, 2, 4)
    ]
    try:
        for env, num_servers in zip(ours, (1, 2, 4), strict=True):
            assert isinstance(env, RemoteVectorEnv)
            assert len(env._fleet.members) == num_servers
        return play(theirs, *ours, steps=steps)
    finally:
        for env in (*ours, theirs):
            env.close()
