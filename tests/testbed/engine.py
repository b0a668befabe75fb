#!/usr/bin/env python3
"""Make sure that a Docker Engine answers, on a machine that may have none.

    python3 tests/testbed/engine.py up      # starts one where none answers, which needs root
    python3 tests/testbed/engine.py down    # ends the one that `up` started, and no other

Both do nothing the second time. On Debian and its relatives `up` installs the engine where it is
missing; it needs no service manager. What it started is noted in a file (``--state``), by process
id and time of birth, so that `down` cannot end anything else. Standard library only: nothing is
installed yet when this runs.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path


DEFAULT_HOST = "unix:///var/run/docker.sock"
DEFAULT_STATE = Path("/run/openenv-testbed/engine.json")
PACKAGES = ("docker.io", "docker-registry", "iptables")

RUN = Path("/var/run")
# Debian's init script writes the second one.
PID_FILES = (RUN / "docker.pid", RUN / "docker-ssd.pid")
CONTAINERD = RUN / "docker" / "containerd"

_PING_S = 30.0  # one that has much to do answers, if late
START_S = 60.0
STOP_S = 20.0  # an engine gives its containers 10 s


class EngineError(Exception):
    """There is no engine, and none can be started; the text says what to do about it."""


def main() -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=["up", "down"])
    parser.add_argument("--state", type=Path, default=DEFAULT_STATE, help="default: %(default)s")
    arguments = parser.parse_args()
    try:
        {"up": up, "down": down}[arguments.command](arguments.state)
    except EngineError as error:
        say(str(error))
        return 1
    return 0


def say(text: str) -> None:
    """Print a line of progress."""
    print(f"engine: {text}", file=sys.stderr, flush=True)


def up(state: Path) -> None:
    """Make sure that an engine answers.

    Args:
        state: Where to note an engine that had to be started.

    Raises:
        EngineError: None answers, and none can be started.
    """
    host = os.environ.get("DOCKER_HOST") or DEFAULT_HOST
    problem = ping(host)
    if problem is not None:
        if not host.startswith("unix://"):
            raise EngineError(f"No Docker Engine answers on DOCKER_HOST={host}: {problem}")
        if os.geteuid() != 0:
            raise EngineError(
                f"No Docker Engine can be used on {host}: {problem}. Join the group docker where "
                f"one runs; or start one as root: sudo python3 {os.path.relpath(__file__)} up"
            )
        _start(host, state)
    say(f"a Docker Engine answers on {host}")
    if host != DEFAULT_HOST:
        say(f"to use it: export DOCKER_HOST={host}")
    pid = _noted(state)
    if pid is not None:
        say(f"started here as process {pid}; log: {_log(state)}")
        if state == DEFAULT_STATE:
            say(f"to end it: python3 {os.path.relpath(__file__)} down")


def down(state: Path) -> None:
    """End the engine that `up` started, if it did and that one still runs."""
    pid = _noted(state)
    if pid is not None:
        say(f"ending the engine, process {pid}")
        for signum in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signum)
            if _wait(lambda: _noted(state) is None, STOP_S):
                break
    for path in (state, _log(state)):
        path.unlink(missing_ok=True)


def ping(host: str) -> str | None:
    """Ask an engine whether it is there.

    Args:
        host: As in ``DOCKER_HOST``. Of those that are neither a Unix socket nor plain TCP it is
            assumed that they answer.

    Returns:
        What is in the way; None where it answers.
    """
    scheme, _, address = host.partition("://")
    if scheme not in ("unix", "tcp") or (scheme == "tcp" and os.environ.get("DOCKER_TLS_VERIFY")):
        return None
    connection: http.client.HTTPConnection
    if scheme == "unix":
        connection = _UnixConnection(address)
    else:
        connection = http.client.HTTPConnection(address, timeout=_PING_S)
    try:
        connection.request("GET", "/_ping")
        status = connection.getresponse().status
        return None if status == 200 else f"it answers with status {status}"
    except (OSError, http.client.HTTPException) as error:
        return str(error) or repr(error)
    finally:
        connection.close()


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=_PING_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


# -- start --------------------------------------------------------------------------------------


def _start(host: str, state: Path) -> None:
    state.parent.mkdir(parents=True, exist_ok=True)
    if shutil.which("dockerd") is None:
        _install()
    process = None
    pid = _running_engine()  # the installation starts it where services may be started
    if pid is None:
        _clear_leftovers()
        say("starting dockerd")
        with open(_log(state), "wb") as log:
            process = subprocess.Popen(
                ["dockerd", "--host", host],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # it outlives this command, and Ctrl-C
            )
        pid = process.pid
    # An engine that systemd looks after is systemd's: it would only be started again.
    if process is not None or not Path("/run/systemd/system").is_dir():
        note = {"pid": pid, "birth": _birth(pid)}
        state.write_text(json.dumps(note) + "\n", encoding="utf-8")

    def settled() -> bool:
        return ping(host) is None or (process is not None and process.poll() is not None)

    _wait(settled, START_S)
    problem = ping(host)
    if problem is not None:
        with contextlib.suppress(OSError):
            lines = _log(state).read_text(encoding="utf-8", errors="replace").splitlines()
            print(*lines[-15:], sep="\n", file=sys.stderr)
        down(state)
        raise EngineError(f"dockerd does not answer: {problem}. Its last lines are above.")
    if process is not None:
        process.returncode = 0  # it stays, and is not ours to wait for


def _install() -> None:
    if shutil.which("apt-get") is None:
        raise EngineError(
            "Docker Engine is missing, and only where there is apt-get it can be installed here. "
            "See https://docs.docker.com/engine/install/"
        )
    say(f"installing {' '.join(PACKAGES)}")
    # Lists of packages are out of date as often as not; a mirror may fail for a moment.
    for pause_s in (0, 0, 5):
        time.sleep(pause_s)
        _apt("update", "--quiet")
        status, output = _apt("install", "--yes", "--quiet", "--no-install-recommends", *PACKAGES)
        if status == 0:
            return
    print(*output.splitlines()[-15:], sep="\n", file=sys.stderr)
    raise EngineError(f"{' and '.join(PACKAGES)} cannot be installed; the last lines are above.")


def _apt(*arguments: str) -> tuple[int, str]:
    done = subprocess.run(
        ["apt-get", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        text=True,
        errors="replace",
    )
    return done.returncode, done.stdout


def _running_engine() -> int | None:
    """Return an engine that runs already, though it may not answer yet."""
    for path in PID_FILES:
        pid = _read_pid(path)
        if pid is not None and _runs(pid, "dockerd"):
            return pid
    return None


def _clear_leftovers() -> None:
    """Remove what a killed engine leaves; where its number was given away, it cannot start."""
    (RUN / "docker.pid").unlink(missing_ok=True)
    pid = _read_pid(CONTAINERD / "containerd.pid")
    if pid is None or not _runs(pid, "containerd"):
        for name in ("containerd.pid", "containerd.sock", "containerd-debug.sock"):
            (CONTAINERD / name).unlink(missing_ok=True)


# -- processes ----------------------------------------------------------------------------------


def _log(state: Path) -> Path:
    return state.with_suffix(".log")


def _noted(state: Path) -> int | None:
    """Return the engine that a state file names; None where it does not run any more."""
    try:
        note = json.loads(state.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    pid = int(note["pid"])
    return pid if note["birth"] and _birth(pid) == note["birth"] else None


def _birth(pid: int) -> str:
    """Return what tells a process from a later one of the same number; "" where it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] == "Z" else fields[19]


def _runs(pid: int, name: str) -> bool:
    try:
        command = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return command.strip() == name and _birth(pid) != ""


def _read_pid(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _wait(happened: Callable[[], bool], timeout_s: float) -> bool:
    end_s = time.monotonic() + timeout_s
    while not happened():
        if time.monotonic() > end_s:
            return False
        time.sleep(0.1)
    return True


if __name__ == "__main__":
    sys.exit(main())
