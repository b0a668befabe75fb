"""The stand-in for the official image with Python, made of a Debian machine's own packages."""

from __future__ import annotations

import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest


pytestmark = pytest.mark.container

ROOT = Path(__file__).parents[3]


def make(prefix: str, tag: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "servers/base/offline.py", "--python", prefix, "--tag", tag],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
    )


def test_debians_own_interpreter_serves(docker: Any) -> None:
    if not list(Path("/var/lib/dpkg/info").glob("python3-pip.list")):
        pytest.skip("this is no Debian with python3-pip")
    tag = f"openenv-gym-test:{uuid.uuid4().hex}"
    done = make("/usr", tag)
    try:
        assert done.stdout.strip() == tag, done.stderr
        code = "import subprocess, sys; subprocess.run([sys.executable, '-m', 'venv', '--without-pip', '/tmp/v'], check=True); print(sys.version_info >= (3, 9))"
        assert docker.containers.run(tag, ["python", "-c", code], remove=True) == b"True\n"
        assert b"/usr/lib/python3" in docker.containers.run(
            tag, ["python", "-m", "pip", "--version"], remove=True
        )
    finally:
        docker.images.remove(tag, force=True)


def test_no_interpreter(tmp_path: Path) -> None:
    if not Path("/var/lib/dpkg/status").is_file():
        pytest.skip("this is no Debian")
    done = make(str(tmp_path), "openenv-gym-test:none")
    assert done.returncode == 1
    assert f"No interpreter is installed in {tmp_path}; expected bin/python3.X" in done.stderr
