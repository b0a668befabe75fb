"""A thousand steps of each environment, recorded in a process, played again in a container.

`python3 dev.py replays` runs it and prints a line for each; what this machine lacks is skipped, with
the reason.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import pytest

import openenv_gym
from openenv_gym import recording
from openenv_gym.policies import Chance
from openenv_gym.recording.making import make_again
from openenv_gym.registration import known_environments, lookup
from openenv_gym.registration.catalogue import base_name


STEPS = 1_000
SEED = 7

OPTIONS: dict[str, dict[str, Any]] = {
    "Atari-v0": {"game": "breakout", "preprocess": True},
    "Coding-v0": {"allow_unsandboxed": True},  # its programs are those of this file
    "OpenSpiel-v0": {"game": "leduc_poker"},
    "TextArena-v0": {"env_id": "Wordle-v0"},
}


def _ids() -> list[str]:
    """Return an id of each environment: the last version, and of Atari's games a few."""
    last: dict[str, str] = {}
    for entry in known_environments().values():
        if entry.package not in (None, "atari_env"):
            last[base_name(entry.id)] = entry.id
    names = [env_id.removeprefix("openenv/") for env_id in last.values()]
    names.remove("Gymnasium-v0")  # which is all of the others
    return sorted([*names, "Atari-v0", "Pong-v5", "MsPacmanNoFrameskip-v4"])


def record(env_id: str, path: Path) -> None:
    entry = lookup(env_id)
    how = dict(OPTIONS.get(env_id, {}))
    if entry.untrusted:
        how["allow_unisolated"] = True
    try:
        env = gymnasium.make(entry.id, provider="process", disable_env_checker=True, **how)
    except Exception as error:
        pytest.skip(f"cannot be made here: {str(error)[:160]}")
    chance = Chance(env.action_space, 1)
    chance.seed(0, SEED)
    env = recording.RecordRollout(env, path)
    _, info = env.reset(seed=SEED)
    for step in range(STEPS):
        action = f"print({step})" if entry.untrusted else chance.draw(0, info.get("action_mask"))
        _, _, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            _, info = env.reset()
    env.close()


@pytest.mark.long
@pytest.mark.images
@pytest.mark.container
@pytest.mark.timeout(600)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("env_id", _ids())
def test_a_thousand_steps_are_the_same_in_a_container(
    env_id: str, tmp_path: Path, capsys: Any
) -> None:
    path = tmp_path / "x"
    record(env_id, path)
    with recording.open(path) as file:
        assert file.steps == STEPS
        assert file.metadata["versions"]["openenv_gym"] == openenv_gym.__version__
        env = make_again(file, provider="docker")
        try:
            connection = env.unwrapped.openenv.connection
            where = str(connection.address)
            result = recording.replay(file, env=env)
        finally:
            env.close()
        with capsys.disabled():
            print(
                f"\n{env_id:28} {where:36} {result.steps:5} steps", result.difference or "the same"
            )
        assert where.startswith("docker:")  # it was not this machine that played it again
        assert result.difference is None and result.steps == STEPS
        assert file.episodes
