"""Infos that a recording leaves out: neither kept nor compared when it is played again."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from click.testing import CliRunner

from openenv_gym import recording
from openenv_gym.cli.main import main


class Engine(gymnasium.Wrapper):  # type: ignore[type-arg]
    """Tells in its infos what no file can keep, and what no dotted name can name."""

    def reset(self, **how: Any) -> Any:
        observation, info = self.env.reset(**how)
        return observation, {**info, "engine": self, "time.s": time.perf_counter(), "left": 1}

    def step(self, action: Any) -> Any:
        *rest, info = self.env.step(action)
        return *rest, {**info, "engine": self, "time.s": time.perf_counter(), "left": 1}


def make_engine() -> Any:
    return Engine(gymnasium.make("CartPole-v1", max_episode_steps=7))


LEFT_OUT = ("engine", "time.s")


def test_what_a_recording_leaves_out_is_not_compared(tmp_path: Path) -> None:
    env = recording.RecordRollout(make_engine(), tmp_path / "x", leave_out=LEFT_OUT)
    env.reset(seed=1)
    for action in (0, 1, 1):
        env.step(action)
    env.close()
    arguments = ["replay", str(tmp_path / "x"), "--make", f"{__name__}:make_engine"]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    assert "info engine, info time.s" in done.stdout and "3 the same" in done.stdout
    with recording.open(tmp_path / "x") as file:
        assert file.metadata["leave_out"] == [*LEFT_OUT]
        assert file.step(0).info == {"left": 1}
        made = make_engine()
        result = recording.replay(file, env=made)
        assert result.exact and result.ignored == ("episode.t", *LEFT_OUT)
        made.close()


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_what_a_recording_of_a_vector_leaves_out_is_not_compared(tmp_path: Path, mode: str) -> None:
    def make() -> Any:
        return gymnasium.vector.SyncVectorEnv(
            [make_engine] * 2, autoreset_mode=gymnasium.vector.AutoresetMode(mode)
        )

    envs = recording.RecordRollout(make(), tmp_path / "x", leave_out=LEFT_OUT)
    envs.reset(seed=1)
    for _ in range(20):
        envs.step(np.ones(2, np.int64))
    envs.close()
    with recording.open(tmp_path / "x") as file:
        again, alone = make(), make_engine()
        assert recording.replay(file, env=again).exact
        assert recording.replay(file, env=alone, sub_env=1).exact
        again.close()
        alone.close()
