"""What the provider takes, what it refuses, and the launcher: no swarm is needed."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from openenv_gym import errors
from openenv_gym.providers import Mount, Resources, ServerTarget, SwarmProvider, get_provider
from openenv_gym.providers.docker.hardening import ContainerLimits
from openenv_gym.providers.sandbox import Sandbox
from openenv_gym.providers.swarm import launcher, server
from openenv_gym.providers.swarm.server import SwarmServer
from openenv_gym.providers.swarm.service import Service, join
from openenv_gym.providers.swarm.spec import Plan
from openenv_gym.providers.swarm.tasks import Task


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


# -- services, on a manager of our own ------------------------------------------------------------


class _Manager:
    """Stands for a manager's API where what counts is what it holds, and when it refuses."""

    def __init__(self) -> None:
        self.secrets: set[str] = set()
        self.services: set[str] = set()
        self.refusals = 0

    def create_secret(self, name: str, data: bytes, labels: Any) -> dict[str, str]:
        self._make(self.secrets, name)
        return {"ID": name}

    def create_service(self, task: Any, *, name: str, **_: Any) -> None:
        if self.refusals:
            self.refusals -= 1
            raise _refusal(500, "context deadline exceeded")
        self._make(self.services, name)

    def remove_secret(self, name: str) -> None:
        self._remove(self.secrets, name)

    def remove_service(self, name: str) -> None:
        self._remove(self.services, name)

    @staticmethod
    def _make(names: set[str], name: str) -> None:
        if name in names:
            raise _refusal(409, f"{name} already exists")
        names.add(name)

    @staticmethod
    def _remove(names: set[str], name: str) -> None:
        if name not in names:
            raise _refusal(404, f"{name} not found")
        names.remove(name)


def _refusal(status: int, text: str) -> Exception:
    docker_errors = pytest.importorskip("docker.errors")
    error: Exception = docker_errors.APIError(
        text, SimpleNamespace(status_code=status), explanation=text
    )
    return error


@pytest.fixture
def manager() -> _Manager:
    return _Manager()


@pytest.fixture
def seats(manager: _Manager) -> Iterator[list[Service]]:
    """Two seats in one service."""
    plan = Plan(ServerTarget("echo_env"), "image", ContainerLimits(), Sandbox())
    client = SimpleNamespace(api=manager)
    found = [join(client, plan, shared=True) for _ in range(2)]
    yield found
    for service in found:
        service.leave()


def test_a_service_that_was_half_made_is_in_nobodys_way(
    manager: _Manager, seats: list[Service]
) -> None:
    manager.refusals = 1
    with pytest.raises(errors.ServerStartError, match="deadline exceeded"):
        seats[0].ensure()
    assert manager.secrets == set()
    seats[1].ensure()
    assert manager.secrets == manager.services == {seats[1].name}


def _task(number: int, state: str) -> Task:
    return Task(
        id=str(number),
        slot=number,
        node_id="node",
        state=state,
        wanted=state == "running",
        error="task: non-zero exit (137)" if state == "failed" else "",
        exit_code=137,
        container_id="",
        port=8000,
    )


@pytest.mark.parametrize("used", [True, False])
def test_tasks_that_fail_others_say_nothing_about_the_next_one(
    seats: list[Service], monkeypatch: pytest.MonkeyPatch, used: bool
) -> None:
    service = seats[0]
    if used:
        for number in (1, 2):
            assert service.take([_task(number, "running")]) is not None
    states = iter(["preparing", "preparing", "running"])
    failed = [_task(1, "preparing"), _task(2, "preparing")]

    def tasks() -> list[Task]:
        now = [*failed, _task(3, next(states))]
        failed[:] = [_task(1, "failed"), _task(2, "failed")]
        return now

    monkeypatch.setattr(service, "tasks", tasks)
    monkeypatch.setattr(server, "tail", lambda *_: "")
    monkeypatch.setattr(server, "find_node", lambda *_: SimpleNamespace(name="n", host="h"))
    monkeypatch.setattr(SwarmServer, "_answers", lambda *_: True)
    service.seats += 1  # which the server leaves
    if used:
        started = SwarmServer(SimpleNamespace(), service)
        assert started.task_name.endswith(".3 on n")
        started.stop()
    else:
        with pytest.raises(errors.ServerStartError, match="end before they serve"):
            SwarmServer(SimpleNamespace(), service)


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
    done = subprocess.run([*LAUNCHER, sys.executable, "-c", code])
    # Here, what somebody else ran out of memory for may be taken for the reason of a SIGKILL.
    also = launcher.OUT_OF_MEMORY if expected == 128 + 9 else expected
    assert done.returncode in (expected, also)


@linux_only
def test_the_launcher_passes_signals_on_and_gives_rights_up() -> None:
    code = """
import signal, sys, time
status = open("/proc/self/status").read()
signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))
print("NoNewPrivs:\\t1" in status, flush=True)
while True:  # and no `pause`, before which the signal may come
    time.sleep(0.05)
"""
    with subprocess.Popen(
        [*LAUNCHER, sys.executable, "-c", code], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 5
