"""What a guardian does when its owner is gone."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waiting import eventually


OWNER = """
import json, sys, time
from openenv_gym.providers.guardian import guardian
for line in sys.argv[1:]:
    guardian.watch(line)
guardian.forget(sys.argv[-1])
print("ready", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM])
def test_commands_run_when_the_owner_is_gone_and_not_before(tmp_path: Path, signum: int) -> None:
    def touching(name: str) -> str:
        code = "import pathlib, sys; pathlib.Path(sys.argv[1]).touch()"
        return "command:" + json.dumps([sys.executable, "-c", code, str(tmp_path / name)])

    failing = "command:" + json.dumps([str(tmp_path / "no such program")])
    things = [failing, touching("with spaces, and a: colon"), touching("forgotten")]
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, *things], stdout=subprocess.PIPE, text=True
    )
    with owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "ready\n"
        assert list(tmp_path.iterdir()) == []
        owner.send_signal(signum)
    made = tmp_path / "with spaces, and a: colon"
    assert eventually(made.exists)
    assert not (tmp_path / "forgotten").exists()
