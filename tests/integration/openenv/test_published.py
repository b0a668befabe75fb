"""Published environments of OpenEnv, from a folder of theirs: `dev.py openenv --envs DIR`.

Nothing of them is part of this project. What they need is installed where
``.venvs/openenv-0.10`` is, or another Python is named by ``OPENENV_ENVS_PYTHON``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

import gymnasium
import pytest
from pydantic import BaseModel, Field

import openenv_gym
from openenv_gym.models import Action, Observation
from tests.integration.openenv.conftest import Launch
from tests.integration.openenv.running import openenv_program


assert openenv_gym

pytestmark = [
    pytest.mark.openenv,
    pytest.mark.timeout(300),
    # So says Gymnasium of the numbers in a list of numbers, which it takes out of an array itself.
    pytest.mark.filterwarnings("ignore:.*Casting input x to numpy array"),
]

ENVS = os.environ.get("OPENENV_ENVS", "")
STEPS = 20


class Arguments(BaseModel):
    """What the echo tool is to say."""

    message: str = Field(max_length=20)


class Call(Action):
    """A call of the echo tool; the schema leaves open which tools and arguments there are."""

    tool_name: Literal["echo_message"]
    arguments: Arguments


class Called(Observation):
    """What a call brings; the result goes to the info. The first observation names no tool."""

    tool_name: str = ""


class Drop(Action):
    """A column of the board; the schema has no bounds."""

    column: int = Field(ge=0, le=6)


class Move(Action):
    """A direction in the maze; likewise."""

    action: int = Field(ge=0, le=3)


MODELS: dict[str, dict[str, Any]] = {
    "connect4_env": {"action_model": Drop},
    "echo_env": {"action_model": Call, "observation_model": Called},
    "maze_env": {"action_model": Move},
}


@pytest.fixture(params=["connect4_env", "grid_world_env", "chess_env", "maze_env", "echo_env"])
def name(request: pytest.FixtureRequest) -> str:
    if not ENVS:
        pytest.skip("no folder is named: `python3 dev.py openenv --envs DIR`")
    if not (Path(ENVS) / request.param).is_dir():
        pytest.skip(f"{ENVS} has no {request.param}")
    return str(request.param)


def test_twenty_random_steps(name: str, launch: Launch) -> None:
    python = os.environ.get("OPENENV_ENVS_PYTHON") or openenv_program("python")
    urls = [
        launch([python, "-m", "uvicorn", f"{name}.server.app:app", "--port", "{port}"], cwd=ENVS)
        for _ in range(2)
    ]
    env = gymnasium.make("openenv/Remote-v0", base_url=urls[0], **MODELS.get(name, {}))
    env.reset(seed=1)
    env.action_space.seed(1)
    for _ in range(STEPS):
        *_, terminated, truncated, _ = env.step(env.action_space.sample())
        if terminated or truncated:
            env.reset()
    env.close()
    envs = gymnasium.make_vec(
        "openenv/Remote-v0", num_envs=2, base_url=urls, **MODELS.get(name, {})
    )
    envs.reset(seed=1)
    envs.action_space.seed(1)
    for _ in range(STEPS):
        envs.step(envs.action_space.sample())
    envs.close()
