"""Keeps one interpreter at a time: starts, interrupts and ends it with all that it has started.

A process of its own between the server and the agent's code, with one thread, so that it can fork;
a fresh interpreter takes a millisecond or two, and has loaded nothing that the agent could use
against the server. Orphans of the interpreter become children of its keeper (a "subreaper"), so
whatever gets away from its parents is found all the same. When the server hangs up, or dies, the
keeper ends everything, removes the directory, and ends itself.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

from coding_env.server.inside import landlock
from coding_env.server.inside.executors import preload
from coding_env.server.inside.limits import (
    CHILD_SUBREAPER,
    DUMPABLE,
    KEEPER,
    Confinement,
    Limits,
    become,
    prctl,
    set_name,
)
from coding_env.server.inside.runner import serve


__all__ = ["main"]

_END_S = 10.0
_MAX_LETTER = 4096
_CONNECTION = 3  # descriptor of an interpreter's connection
_AWAY = 64  # the keeper has fewer descriptors than this


class Keeper:
    """Does what the server asks for.

    Args:
        server: The connection to the server: a packet is a request, or its answer.
        plan: What the server said on the command line.
        empty: Empties a directory, however deep and whatever its modes.
    """

    def __init__(
        self, server: socket.socket, plan: dict[str, Any], empty: Callable[[str], None]
    ) -> None:
        self._server = server
        self._limits = Limits(**plan["limits"])
        self._place = Confinement(
            plan["directory"], tuple(plan["readable"]), tuple(plan["hidden"]), plan["user"]
        )
        self._executor: str = plan["executor"]
        self._imports: list[str] = plan["imports"]
        self._empty = empty
        self._pid = 0
        self._status: int | None = None
        signal.signal(signal.SIGCHLD, self._reap)

    def run(self) -> None:
        """Serve until the server is gone; leave nothing behind."""
        try:
            while True:
                data, descriptors, _, _ = socket.recv_fds(self._server, _MAX_LETTER, 4)
                if not data:
                    break
                self._server.send(json.dumps(self._do(json.loads(data), descriptors)).encode())
        except OSError:
            pass  # the server is gone
        finally:
            while self._end()["left"]:
                pass  # nobody else would
            with contextlib.suppress(OSError):
                os.rmdir(self._place.directory)

    def _do(self, asked: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        match asked["do"]:
            case "start":
                try:
                    return self._start(asked["seed"], descriptors)
                except OSError as error:
                    return {"error": f"no interpreter can be started: {error}"}
            case "interrupt":
                if self._pid:
                    os.kill(self._pid, signal.SIGINT)
                return {}
            case "prune":
                self._kill(spare=self._pid)
                return {}
            case _:
                return self._end()

    def _start(self, seed: int, descriptors: list[int]) -> dict[str, Any]:
        """Fork an interpreter; the descriptors are its streams and its connection."""
        self._status = None
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        try:
            self._pid = os.fork()
            if self._pid == 0:
                self._become_interpreter(seed, descriptors)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
            for descriptor in descriptors:
                os.close(descriptor)
        return {"pid": self._pid}

    def _become_interpreter(self, seed: int, descriptors: list[int]) -> None:
        """Be the fork: give up everything, then run what the server sends."""
        try:
            os.setsid()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            self._server.detach()
            # Out of the way first: one of them may have a number that another is to get.
            away = [fcntl.fcntl(each, fcntl.F_DUPFD, _AWAY) for each in descriptors]
            for number, descriptor in enumerate(away):
                os.dup2(descriptor, number, inheritable=number != _CONNECTION)
            os.closerange(_CONNECTION + 1, 2 * _AWAY)
            os.chdir(self._place.directory)
            become(self._limits, self._place)
            channel = socket.socket(fileno=_CONNECTION)
            serve(channel, self._executor, self._imports, seed)
        except BaseException as error:
            with contextlib.suppress(BaseException):
                os.write(2, f"The interpreter could not start: {error}\n".encode())
        finally:
            os._exit(1)

    def _end(self) -> dict[str, Any]:
        """Kill the interpreter and all that it has started, and empty the directory."""
        left = self._kill()
        end_s = time.monotonic() + _END_S
        # Whoever is dead still counts for the kernel's bound of processes until that is noted; and
        # the interpreter's threads end one by one.
        while not left and self._reap() and time.monotonic() < end_s:
            time.sleep(0.0005)
        self._pid = 0
        problem = ""
        try:
            self._empty(self._place.directory)
        except OSError as error:
            problem = str(error)
        return {"status": self._status, "left": left, "problem": problem}

    def _kill(self, spare: int = 0) -> int:
        """Kill all processes but one; return how many are left."""
        end_s = time.monotonic() + _END_S
        while (left := _descendants(spare)) and time.monotonic() < end_s:
            if self._place.user is not None and not spare:
                _kill_all_of(self._place.user)
            # None of them starts another one once all are stopped.
            for sign in (signal.SIGSTOP, signal.SIGKILL):
                for pid in _descendants(spare):
                    with contextlib.suppress(OSError):
                        os.kill(pid, sign)
            time.sleep(0.0005)
            self._reap()
        return len(left)

    def _reap(self, *_: object) -> bool:
        """Take note of all that have ended; tell whether there are others."""
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return True
                if pid == self._pid:
                    self._status = status
        return False


def _descendants(spare: int = 0) -> list[int]:
    """Return all processes below this one that live, but for one of them."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            # It may end at any moment. Its name may hold anything, and ends with the last bracket.
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
                facts = file.read().rpartition(b")")[2].split()
                # Threads may go on where the first one has ended, and looks like all of it.
                state, parent, threads = facts[0], int(facts[1]), int(facts[17])
                if state not in (b"Z", b"X") or threads > 1:
                    children.setdefault(parent, []).append(int(name))
    found: list[int] = []
    waiting = [os.getpid()]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return [pid for pid in found if pid != spare]


def _kill_all_of(user: int) -> None:
    """Kill all processes of a user, which is one system call that no fork escapes.

    By a child that is that user in all respects: the kernel goes by the real user as well as by the
    effective one, and would take all processes of root for a caller that is root in any way.
    """
    try:
        pid = os.fork()
    except OSError:
        return  # no process is to be had: the caller goes on with what it finds, one by one
    if pid == 0:
        with contextlib.suppress(OSError):
            os.setresuid(user, user, user)
            if user != 0 and os.getresuid() == (user, user, user):
                os.kill(-1, signal.SIGKILL)
        os._exit(0)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)


def main() -> None:
    """Serve at the descriptor that the command line names."""
    number, plan, cleaner = int(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3]
    server = socket.socket(fileno=number)
    server.set_inheritable(False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server's, who tells us
    os.setsid()
    set_name(KEEPER)
    prctl(CHILD_SUBREAPER, 1)
    prctl(DUMPABLE, 0)  # no program of the same user shall read or trace it
    try:
        preload(plan["executor"])
    except ImportError as error:
        server.send(json.dumps({"error": str(error)}).encode())
        return
    import runpy

    empty = runpy.run_path(cleaner)["empty_directory"]
    server.send(json.dumps({"landlock": landlock.version()}).encode())
    Keeper(server, plan, empty).run()
