"""Servers of several processes, started as their users start them."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from openenv_gym.client import Connection, UnixAddress
from tests.support.waiting import eventually


ROOT = Path(__file__).parents[3]
START_S = 60.0

# An environment that says where it runs, and does there what it is told.
_WORLD = """
import os
import string

import gymnasium


class World(gymnasium.Env):
    metadata = {"render_modes": []}
    action_space = gymnasium.spaces.Text(4096, min_length=0, charset=string.printable)
    observation_space = gymnasium.spaces.Discrete(1)

    def __init__(self, value=0):
        self.value = value
        self.names = {}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {"pid": os.getpid(), "value": self.value}

    def step(self, action):
        self.names["result"] = None
        exec(action, self.names)
        return 0, 0.0, False, False, {"result": self.names["result"]}
"""


def is_alive(pid: int) -> bool:
    """Tell whether a process runs."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def children(pid: int) -> set[int]:
    """Return the processes that a process has started."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(stat.read_text().rpartition(")")[2].split()[1]) == pid:
                found.add(int(stat.parent.name))
    return found


class Command:
    """A server that was started by command.

    Attributes:
        process: The process that was started, which is the supervisor.
        path: Unix socket on which it listens.
        url: Where it listens on TCP.
    """

    def __init__(
        self, directory: Path, arguments: tuple[str, ...], environment: str, root: bool
    ) -> None:
        self.path = str(directory / "s")
        self._log = (directory / "log").open("w+")
        command = [sys.executable, "-m", "openenv_gym.server", environment]
        if not root and os.geteuid() == 0:
            # Root without the right to change users is somebody like everybody else.
            if shutil.which("setpriv") is None:
                pytest.skip("setpriv is not installed, by which root gives rights up")
            command = ["setpriv", "--bounding-set=-setuid,-setgid", *command]
        self.process = subprocess.Popen(
            [*command, "--uds", self.path, "--port", "0", *arguments],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(directory), "TMPDIR": str(directory)},
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )
        self.url = ""
        self._connections: list[Connection] = []

    def wait_until_it_serves(self) -> None:
        def serves() -> bool:
            assert self.process.poll() is None, self.log()
            return " on http://" in self.log()

        assert eventually(serves, START_S), self.log()
        self.url = "http://" + self.log().partition(" on http://")[2].split()[0]

    def log(self) -> str:
        return Path(self._log.name).read_text()

    def connect(self, options: dict[str, Any] | None = None, **kwargs: Any) -> Connection:
        connection = Connection(
            UnixAddress(self.path),
            options or {},
            **{"timeout_s": 60.0, "connect_timeout_s": 60.0, **kwargs},
        )
        self._connections.append(connection)
        return connection

    def open(self, options: dict[str, Any] | None = None, **kwargs: Any) -> tuple[Connection, int]:
        """Open a session; return it and the process that it is in."""
        connection = self.connect(options, **kwargs)
        pid: int = connection.call("reset", [None, None]).value[1]["pid"]
        return connection, pid

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def close(self) -> None:
        for connection in self._connections:
            connection.close(0.0)
        workers = children(self.process.pid)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(60)
        self._log.close()
        assert eventually(lambda: not any(is_alive(pid) for pid in workers))


def run(connection: Connection, code: str) -> Any:
    """Run code where the environment is, and return what it leaves in `result`."""
    return connection.call("step", [code]).value[4]["result"]


Serve = Callable[..., Command]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Return a function that starts a server of the world above, or of something else."""
    started: list[Command] = []

    def start(
        *arguments: str, environment: str = "world:World", root: bool = False, wait: bool = True
    ) -> Command:
        directory = tmp_path / str(len(started))
        directory.mkdir()
        (directory / "world.py").write_text(_WORLD)
        command = Command(directory, arguments, environment, root)
        started.append(command)
        if wait:
            command.wait_until_it_serves()
        return command

    yield start
    for command in started:
        command.close()
