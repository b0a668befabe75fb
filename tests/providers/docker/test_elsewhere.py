"""A daemon that sees no files of this machine: servers are reached through it alone."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import openenv_gym  # noqa: F401  # registers the ids
from openenv_gym.providers import DockerProvider
from tests.providers.docker.conftest import ours
from tests.support.images import image
from tests.testbed.engine import DEFAULT_HOST


pytestmark = pytest.mark.container

ROOT = Path(__file__).parents[3]


@contextlib.contextmanager
def over_tcp() -> Iterator[str]:
    """Offer this machine's daemon on a port, as one on another machine is; yield its address."""
    host = os.environ.get("DOCKER_HOST") or DEFAULT_HOST
    threads: list[threading.Thread] = []
    ends: list[socket.socket] = []

    def pump(source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = listener.accept()
                far = socket.socket(socket.AF_UNIX)
                far.connect(host.removeprefix("unix://"))
                ends.extend((near, far))
                for pair in ((near, far), (far, near)):
                    threads.append(threading.Thread(target=pump, args=pair, daemon=True))
                    threads[-1].start()

    listener = socket.create_server(("127.0.0.1", 0))
    accepting = threading.Thread(target=accept, daemon=True)
    accepting.start()
    try:
        yield f"tcp://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        accepting.join(60)
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join(60)
        for end in ends:
            end.close()


def test_a_daemon_on_another_machine(docker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    image("gymnasium")
    before = ours(docker)
    with over_tcp() as host:
        monkeypatch.setenv("DOCKER_HOST", host)
        env = gymnasium.make("openenv/CartPole-v1", provider=DockerProvider(build="never"))
        local = gymnasium.make("CartPole-v1")
        assert np.array_equal(env.reset(seed=1)[0], local.reset(seed=1)[0])
        for action in (1, 0, 1, 0, 1, 1):
            assert np.array_equal(env.step(action)[0], local.step(action)[0])
        (new,) = ours(docker) - before
        found = docker.api.inspect_container(new)
        assert found["HostConfig"]["NetworkMode"] == "none"
        assert found["Mounts"] == []
        env.close()
        local.close()
        from openenv_gym.providers.docker.daemon import connect_daemon

        connect_daemon().close()


def test_a_trainer_that_is_in_a_container_itself(docker: Any, tmp_path: Path) -> None:
    """It shares the daemon's socket with its host, and no directory."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("only root can put a process into a file system of its own")
    image("echo_env")
    script = """
        import gymnasium, openenv_gym
        env = gymnasium.make("openenv/Echo-v0", provider="docker")
        env.reset()
        print(env.step("far away")[0]["echoed_message"])
        env.close()
    """
    inside = 'mount -t tmpfs tmpfs "$0" && exec "$@"'
    command = ["unshare", "--mount", "sh", "-c", inside, str(tmp_path), sys.executable, "-c"]
    done = subprocess.run(
        [*command, textwrap.dedent(script)],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": f"{ROOT}:{ROOT}/envs"},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.stdout == "far away\n", done.stderr
