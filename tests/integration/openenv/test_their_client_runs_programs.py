"""OpenEnv's client on our coding environment."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.integration.openenv.running import openenv_program, ours
from tests.integration.openenv.test_their_client import drive


pytestmark = [pytest.mark.openenv, pytest.mark.timeout(300)]

OPTIONS = ("--option", "allow_unsandboxed=true")

# A client as OpenEnv's coding environment has it: models with its three fields and no others.
TYPED = Path(__file__).with_name("coding_client.py")


def test_programs() -> None:
    with ours("coding_env", *OPTIONS) as url:
        script = [
            ["reset", {}],
            ["step", {"code": "x = 20\nprint('hi')"}],
            ["step", {"code": "x + 1"}],
            ["step", {"code": "import sys; sys.exit(3)"}],
            ["step", {"program": "1"}],
            ["state"],
        ]
        answers = drive(url, script)
    assert answers[1]["observation"]["stdout"] == "hi\n"
    assert (answers[1]["reward"], answers[1]["done"]) == (0.0, False)
    assert answers[2]["observation"]["result"] == "21"
    assert (answers[3]["observation"]["exit_code"], answers[3]["reward"]) == (3, -0.1)
    assert "program" in answers[4]["text"] or "VALIDATION_ERROR" in answers[4]["text"]
    assert (answers[5]["last_exit_code"], answers[5]["step_count"]) == (3, 3)


def test_a_client_with_three_fields() -> None:
    with ours("coding_env", *OPTIONS, "--option", "fields=openenv") as url:
        done = subprocess.run(
            [openenv_program("python"), TYPED, url], capture_output=True, text=True, timeout=120
        )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "stdout": "hi\n",
        "exit_code": 0,
        "reward": 0.0,
        "last_exit_code": 0,
    }
