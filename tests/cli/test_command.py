"""The distribution that installs the script ``openenv``."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest


ROOT = Path(__file__).parents[2]


@pytest.mark.uv
def test_the_script_is_that_of_the_library(tmp_path: Path) -> None:
    from uv import find_uv_bin

    shutil.copytree(ROOT / "command", tmp_path / "command")
    build = [
        find_uv_bin(),
        "build",
        "--wheel",
        "--out-dir",
        str(tmp_path),
        str(tmp_path / "command"),
    ]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("openenv_gym_command-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (entry,) = [name for name in names if name.endswith("entry_points.txt")]
        scripts = archive.read(entry).decode()
    assert not [name for name in names if ".dist-info/" not in name]  # no module to collide with
    (script,) = re.findall(r"^openenv = (\S+)$", scripts, re.M)
    (ours,) = {
        point.value
        for point in importlib.metadata.entry_points(group="console_scripts")
        if point.name == "openenv-gym"
    }
    assert script == ours


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str) -> None:
    if shutil.which("bash") is None:
        pytest.skip("click asks bash for its version")
    script = Path(sys.executable).with_name("openenv-gym")
    asked = {"_OPENENV_GYM_COMPLETE": f"{shell}_source", "PATH": os.environ["PATH"]}
    done = subprocess.run([script], env=asked, capture_output=True, text=True, check=True)
    assert "openenv-gym" in done.stdout and "_OPENENV_GYM_COMPLETE" in done.stdout


def test_completion_of_a_command_and_of_an_option() -> None:
    script = Path(sys.executable).with_name("openenv-gym")

    def complete(words: str, word: int) -> list[str]:
        asked = {"_OPENENV_GYM_COMPLETE": "bash_complete", "COMP_WORDS": words}
        env = {**os.environ, **asked, "COMP_CWORD": str(word)}
        done = subprocess.run([script], env=env, capture_output=True, text=True, check=True)
        return [line.partition(",")[2] for line in done.stdout.splitlines()]

    assert complete("openenv-gym ro", 1) == ["rollout"]
    assert complete("openenv-gym rollout --num", 2) == ["--num-envs"]
