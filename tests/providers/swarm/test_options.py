"""What the provider takes, what it refuses, and the launcher: no swarm is needed."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from openenv_gym import errors
from openenv_gym.providers import Mount, Resources, ServerTarget, SwarmProvider, get_provider
from openenv_gym.providers.swarm import launcher


def test_by_name() -> None:
    assert isinstance(get_provider("swarm"), SwarmProvider)


@pytest.mark.parametrize(
    ("kwargs", "field"),
    [
        ({"runtime": "runsc"}, "runtime"),
        ({"resources": Resources(gpus=1)}, "gpus"),
        ({"network": "none"}, "network"),
        ({"network": ["api.example.com:443"]}, "network"),
        ({"mounts": [Mount("/somewhere", "/data")]}, "mounts"),
        ({"image": ""}, "image"),
        ({"build": "maybe"}, "build"),
        ({"constraints": "node.role==worker"}, "constraints"),
        ({"constraints": (each for each in ["node.role==worker"])}, "constraints"),
        ({"constraints": {"node.role": "worker"}}, "constraints"),
        ({"constraints": None}, "constraints"),
        ({"drain_s": -1}, "drain_s"),
        ({"drain_s": float("nan")}, "drain_s"),
        ({"workers": 0}, "workers"),
    ],
)
def test_what_it_cannot_do_is_refused(kwargs: dict[str, Any], field: str) -> None:
    with pytest.raises(errors.InvalidOptionError) as caught:
        SwarmProvider(**kwargs)
    assert caught.value.field == field


def test_sessions_that_are_to_be_kept_apart() -> None:
    with pytest.raises(errors.IsolationError):
        SwarmProvider().start(ServerTarget("echo_env", isolate_sessions=True))


LAUNCHER = [sys.executable, "-I", "-S", "-c", Path(launcher.__file__).read_text()]
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="prctl(2) is Linux's")


@linux_only
@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("raise SystemExit(0)", 0),
        ("raise SystemExit(7)", 7),
        ("import os; os.kill(os.getpid(), 15)", 128 + 15),
        ("import os; os.kill(os.getpid(), 9)", 128 + 9),
    ],
)
def test_the_launcher_ends_as_its_server_does(code: str, expected: int) -> None:
    done = subprocess.run([*LAUNCHER, sys.executable, "-c", code], timeout=30)
    # Here, what somebody else ran out of memory for may be taken for the reason of a SIGKILL.
    also = launcher.OUT_OF_MEMORY if expected == 128 + 9 else expected
    assert done.returncode in (expected, also)


@linux_only
def test_the_launcher_passes_signals_on_and_gives_rights_up() -> None:
    code = """
import signal, sys
status = open("/proc/self/status").read()
signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))
print("NoNewPrivs:\\t1" in status, flush=True)
signal.pause()
"""
    with subprocess.Popen(
        [*LAUNCHER, sys.executable, "-c", code], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 5
