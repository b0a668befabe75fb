"""What is trained twice: by a script of examples/, and by its local form."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.integration.trainers.recipes import ROOT, recipes


CARTPOLE = "--total-timesteps 12288"
PONG = (
    "--env-id openenv_gym:openenv/Atari-v0 "
    """--env-kwargs '{"game": "pong", "preprocess": true}'"""
)


@dataclass(frozen=True)
class Case:
    """A training.

    Attributes:
        trainer: As `recipes` names it.
        both: Arguments of both forms.
        there: Those of the script alone.
        here: Those of the local form alone.
        recipe: Which of the trainer's differences makes the local form.
        learns: Returns grow by half, so that a policy that is never used would be noticed.
        episodes: Some end.
    """

    trainer: str
    both: str = CARTPOLE
    there: str = ""
    here: str = ""
    recipe: int = 0
    learns: bool = True
    episodes: bool = True

    @property
    def python(self) -> Path:
        """The interpreter that has the trainer, where ``python3 dev.py trainers`` has put it."""
        name = "rllib" if self.trainer == "rllib" else "trainers"
        return ROOT / ".venvs" / name / "bin" / "python"

    def train(self, folder: Path, *, hosted: bool, provider: str = "process") -> dict[str, Any]:
        """Run one of the two.

        Args:
            folder: For what it writes.
            hosted: The script; else its local form.
            provider: Where servers run.

        Returns:
            ``curve`` (pairs of a step and a return) and ``weights`` (a digest).
        """
        recipe = recipes()[self.trainer][self.recipe]
        script = ROOT / recipe.script
        if not hosted:
            script = folder / f"local_{script.name}"
            script.write_text(recipe.local_form(), encoding="utf-8")
        curve = folder / "curve.json"
        own = self.there if hosted else self.here
        ended = subprocess.run(
            [self.python, script, *shlex.split(f"{self.both} {own}"), "--curve", curve],
            cwd=folder,
            env={**os.environ, "OPENENV_PROVIDER": provider},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=550,
        )
        assert ended.returncode == 0, ended.stdout
        # Stable-Baselines3's `check_env` tells what it dislikes by warnings.
        assert "UserWarning" not in ended.stdout, ended.stdout
        result = json.loads(curve.read_text(encoding="utf-8"))
        assert isinstance(result, dict)
        return result


SHORT = Case("ppo", "--num-envs 8 --num-steps 128 --total-timesteps 20480")
"""What `.ci/run` can afford."""

CASES = {
    "ppo": Case("ppo", "--total-timesteps 65536"),
    "ppo-atari": Case(
        "ppo",
        "--num-envs 8 --num-steps 128 --network small --total-timesteps 16384",
        there=PONG,
        recipe=1,
        learns=False,
    ),
    "ppo-atari-nature": Case(
        "ppo",
        "--num-envs 8 --num-steps 16 --total-timesteps 256",
        there=PONG,
        recipe=1,
        learns=False,
        episodes=False,
    ),
    "stable_baselines3": Case("stable_baselines3"),
    "stable_baselines3-atari": Case(
        "stable_baselines3",
        "--atari --num-envs 2 --num-steps 64 --total-timesteps 2048",
        there="--env-id openenv_gym:openenv/PongNoFrameskip-v4",
        here="--env-id ale_py:PongNoFrameskip-v4",
        learns=False,
    ),
    "torchrl": Case("torchrl"),
    "tianshou": Case("tianshou"),
    "rllib": Case("rllib"),
}
