"""A small process that ends servers whose owner is gone, however it went.

Run as a script (standard library only, so that it starts in milliseconds), it reads lines from its
standard input: ``+THING`` to watch a thing, ``-THING`` to forget it, where a thing is
``process:PID:MARKER`` (with its group, and whatever inherited the marker),
``container:NAME@DAEMON``, ``service:NAME@DAEMON`` (of a swarm, with the secret of that name),
``mount:DIRECTORY`` (of `make_mount`), or ``command:JSON``, words of a program that removes
the thing, for places that the standard library cannot talk to. A thing may be watched before it is
there.
When the input ends, which the kernel sees to even after SIGKILL, it gives servers a moment to end
by themselves and removes the rest, with all their children. Imported, it offers `Guardian`, the
owner's side.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid


__all__ = [
    "KIND",
    "MARKER",
    "OWNER",
    "OWNER_FILE",
    "PROXY_NAME",
    "SOCKET_NAME",
    "Guardian",
    "birth_of",
    "guardian",
    "kill_marked",
    "make_mount",
    "mount_path",
    "remove_mount",
    "socket_path",
]

MARKER = "OPENENV_SERVER"  # variable by which all that a server started is found
OWNER = "OPENENV_OWNER"  # variable that says for which process it was started
KIND = "OPENENV_KIND"  # variable that says what it is
CERTIFICATES = "DOCKER_CERT_PATH"  # variable by which docker-py finds what it needs for TLS
OWNER_FILE = "owner"  # beside the directory that is mounted: for which process it was made

SOCKET_NAME = "s"
PROXY_NAME = "p"
_INNER = "run"
_MAX_PLACE = 60
_GRACE_S = 1.0
_REMOVAL_S = 30.0
_COMMAND_S = 120.0
_ABSENT = 10  # so many times in a row it is not there: then it is gone


class Guardian:
    """The owner's side: one guardian process for each process that owns servers."""

    def __init__(self) -> None:
        # Reentrant: in `watch` the garbage collector may stop a server, which is then forgotten.
        self._lock = threading.RLock()
        self._process: subprocess.Popen[bytes] | None = None
        self._input = -1
        self._watched: set[str] = set()

    def watch(self, thing: str) -> None:
        """Have a thing removed when this process is gone.

        Args:
            thing: ``process:PID:MARKER``, ``container:NAME@DAEMON``, ``service:NAME@DAEMON``,
                ``mount:DIRECTORY`` or ``command:JSON``.

        Raises:
            OSError: No guardian can be started.
        """
        with self._lock:
            self._watched.add(thing)
            if not self._write(f"+{thing}\n"):
                self._restart()

    def forget(self, thing: str) -> None:
        """Take it back: the thing is gone."""
        with self._lock:
            self._watched.discard(thing)
            self._write(f"-{thing}\n")

    def _restart(self) -> None:
        self._drop()
        theirs, ours = os.pipe()
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", __file__],
                stdin=theirs,
                stdout=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C in the terminal is not meant for it
                cwd="/",
                # Inside a server, that server's end must not be ours: there is work to do then.
                env={
                    **{name: value for name, value in os.environ.items() if name != MARKER},
                    **_absolute(CERTIFICATES),
                    OWNER: _this_process(),
                    KIND: "guardian",
                },
            )
        except BaseException:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        self._process, self._input = process, ours
        self._write("".join(f"+{thing}\n" for thing in list(self._watched)))

    def _write(self, text: str) -> bool:
        if self._process is None:
            return False
        try:
            os.write(self._input, text.encode())
        except OSError:
            return False
        return True

    def _drop(self) -> None:
        """Let go of a guardian that has ended, though nobody asked it to."""
        process, self._process = self._process, None
        if process is not None:
            os.close(self._input)
            process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(1.0)

    def disown(self) -> None:
        """At exit: do not wait for the guardian, whose work begins when this process is gone.

        It is not ended here, because finalizers that close environments may still follow.
        """
        with self._lock:
            if self._process is not None:
                self._process.returncode = 0

    def after_fork(self) -> None:
        """In a forked child: leave the parent's guardian alone, and do not keep its input open."""
        process, self._process = self._process, None
        self._lock = threading.RLock()
        self._watched = set()
        if process is not None:
            process.returncode = 0  # not our child: nothing to wait for
            os.close(self._input)


guardian = Guardian()
os.register_at_fork(after_in_child=guardian.after_fork)
atexit.register(guardian.disown)


def _this_process() -> str:
    from openenv_gym.providers.owner import Owner  # which imports this module

    return str(Owner.current())


def _absolute(variable: str) -> dict[str, str]:
    """Return a variable that names a path from here, for a process that is somewhere else."""
    path = os.environ.get(variable)
    return {variable: os.path.abspath(path)} if path else {}


def kill_marked(marker: str) -> None:
    """Kill each process that inherited a marker, whatever session or parent it has by now."""
    for _ in range(10):  # again: one may have forked meanwhile
        pids = [pid for pid in _processes() if _is_marked(pid, marker)]
        if not pids:
            return
        for pid in pids:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def _processes() -> list[int]:
    """Return the processes of this system, none where it has no /proc."""
    with contextlib.suppress(OSError):
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return []


def _is_marked(pid: int, marker: str) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as environ:
            return f"{MARKER}={marker}".encode() in environ.read().split(b"\0")
    except OSError:  # gone, or another user's
        return False


def mount_path() -> str:
    """Choose a path for `make_mount`."""
    place = tempfile.gettempdir()
    # The system takes about a hundred bytes for the address of a socket.
    return os.path.join(place if len(place) < _MAX_PLACE else "/tmp", f"openenv-{uuid.uuid4().hex}")


def make_mount(outer: str) -> str:
    """Make a directory for a socket at a path that is watched already; return the inner one.

    The outer one keeps other users of this machine out; the inner one may be mounted elsewhere.
    """
    inner = os.path.join(outer, _INNER)
    os.mkdir(outer, 0o700)
    with open(os.path.join(outer, OWNER_FILE), "x") as file:
        file.write(_this_process())
    os.mkdir(inner)
    os.chmod(inner, 0o755)
    return inner


def remove_mount(outer: str) -> None:
    """Remove what `make_mount` made, with the files that an `InboundAddress` puts there.

    By name: nothing is followed, and a directory that holds anything else stays.
    """
    inner = os.path.join(outer, _INNER)
    for name in (SOCKET_NAME, f"{SOCKET_NAME}.key", PROXY_NAME):
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(inner, name))
    with contextlib.suppress(OSError):
        os.rmdir(inner)
    if not os.path.isdir(inner):  # else its owner's name stays with it
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(outer, OWNER_FILE))
        with contextlib.suppress(OSError):
            os.rmdir(outer)


def _main() -> None:
    watched: dict[str, str] = {}
    for line in sys.stdin:
        thing = line[1:].strip()
        if line[0] == "+":
            watched[thing] = _birth(thing)
        else:
            watched.pop(thing, None)
    end_s = time.monotonic() + _GRACE_S
    while time.monotonic() < end_s and any(_alive(*item) for item in watched.items()):
        time.sleep(0.02)
    for thing, birth in watched.items():
        with contextlib.suppress(Exception):  # one that fails must not save the others
            _end(thing, birth)


def _end(thing: str, birth: str) -> None:
    kind, _, name = thing.partition(":")
    if kind == "container":
        name, _, daemon = name.partition("@")
        _remove(f"containers/{name}?force=1&v=1", daemon)
    elif kind == "service":
        name, _, daemon = name.partition("@")
        _remove(f"services/{name}", daemon)
        _remove(f"secrets/{name}", daemon)
    elif kind == "mount":
        remove_mount(name)
    elif kind == "command":
        subprocess.run(
            json.loads(name),
            timeout=_COMMAND_S,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    else:
        pid, _, marker = name.partition(":")
        if _alive(thing, birth):
            with contextlib.suppress(OSError):
                os.killpg(int(pid), signal.SIGKILL)
        kill_marked(marker)


def _alive(thing: str, birth: str) -> bool:
    """Tell whether a process lives; its number may have been given to another one meanwhile."""
    return thing.startswith("process:") and birth != "" and _birth(thing) == birth


def _remove(path: str, daemon: str) -> None:
    """Remove what a daemon has at a path of its API, what is still being made included."""
    end_s = time.monotonic() + _REMOVAL_S
    absent = 0
    while time.monotonic() < end_s and absent < _ABSENT:
        status = _ask_to_remove(path, daemon)
        if status in (200, 204):
            return
        # 404: gone already, or not there yet; 409: somebody else is at it; 400: still in use.
        absent = absent + 1 if status == 404 else 0
        time.sleep(0.1)


def _ask_to_remove(path: str, daemon: str) -> int:
    """Ask the daemon to remove something, and return the status of its answer; 0: none came."""
    # Either of the two has docker-py speak TLS.
    tls = os.environ.get("DOCKER_TLS_VERIFY") or os.environ.get(CERTIFICATES)
    if tls or not daemon.startswith(("unix:", "tcp://")):
        code = (
            "import sys, docker\n"
            "api = docker.from_env(timeout=10).api\n"
            "print(api.delete(f'{api.base_url}/{sys.argv[1]}', timeout=10).status_code)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, path],
            env={**os.environ, "DOCKER_HOST": daemon},
            timeout=30,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        return int(done.stdout) if done.returncode == 0 else 0
    request = f"DELETE /{path} HTTP/1.0\r\nHost: docker\r\n\r\n"
    # One that is just ending hangs up without an answer.
    with contextlib.suppress(OSError, ValueError, IndexError), _dial(daemon) as sock:
        sock.settimeout(10)
        sock.sendall(request.encode())
        return int(sock.recv(64).split(b" ")[1])
    return 0


def _dial(daemon: str) -> socket.socket:
    if daemon.startswith("tcp://"):
        host, _, port = daemon.removeprefix("tcp://").rstrip("/").rpartition(":")
        return socket.create_connection((host.strip("[]"), int(port)), 10)
    sock = socket.socket(socket.AF_UNIX)
    try:
        sock.settimeout(10)
        sock.connect(socket_path(daemon))
    except BaseException:
        sock.close()
        raise
    return sock


def _birth(thing: str) -> str:
    kind, name = thing.split(":", 1)
    return birth_of(int(name.partition(":")[0])) if kind == "process" else ""


def birth_of(pid: int) -> str:
    """Return what tells a process from a later one of the same number; "" where it is gone.

    It is when the process began, in clock ticks since boot (proc(5), field 22 of ``stat``).
    """
    try:
        with open(f"/proc/{pid}/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()
    except OSError:
        try:  # no /proc on this system
            os.kill(pid, 0)
        except OSError:
            return ""
        return "" if os.path.isdir("/proc/self") else "unknown"
    return "" if fields[0] == "Z" else fields[19]


def socket_path(address: str) -> str:
    """Return the path in the address of a daemon, ``unix:///path`` or ``unix:/path``."""
    path = address.removeprefix("unix:").removeprefix("//")
    return path if path.startswith("/") else f"/{path}"


if __name__ == "__main__":
    _main()
