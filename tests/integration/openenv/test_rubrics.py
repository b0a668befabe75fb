"""Rubrics and OpenEnv: theirs with our server, ours with their client."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.openenv.running import ROOT, openenv_program, ours
from tests.integration.openenv.test_their_client import drive


pytestmark = [pytest.mark.openenv, pytest.mark.timeout(300)]

SCRIPT = Path(__file__).with_name("their_rubrics.py")


def test_rubrics_written_for_openenv_score_as_there() -> None:
    (site,) = openenv_program("python").parents[1].glob("lib/python3*/site-packages")
    done = subprocess.run(
        [sys.executable, SCRIPT, site],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr


def test_openenvs_client_gets_the_scores() -> None:
    rubric = "tests.server.test_scored_env:Upright"
    with ours("gymnasium", "--option", "env_id=CartPole-v1", "--option", f"rubric={rubric}") as url:
        reset, step = drive(url, [["reset", {"seed": 7}], ["step", {"action": 1}]])
    assert reset["reward"] is None
    angle = step["observation"]["observation"][2]
    assert step["reward"] == pytest.approx(-abs(angle))
    assert step["metadata"] == {"reward_components": {}}
