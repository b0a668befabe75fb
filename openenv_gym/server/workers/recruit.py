"""Worker processes: starting one, and what its supervisor knows of it."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
from typing import Any

from openenv_gym.server.process import bootstrap, signal_name
from openenv_gym.server.workers.isolation import Slot
from openenv_gym.server.workers.ledger import Ledger, make_ledger
from openenv_gym.server.workers.options import WorkerOptions


__all__ = ["Worker", "start_worker"]

_MAIN = "openenv_gym.server.workers.worker"


class Worker:
    """A process that serves.

    Args:
        number: Its own, for ever.
        process: The process.
        channel: Our end of the channel to it.
        slot: Where it runs, if it has a place of its own.
        failures: How many in a row before it ended soon after they began.
        ledger: Where it leaves its figures; None where it is asked for them.

    Attributes:
        peers: Whose sessions it holds or opens, one entry for each.
        ready: It has said that it serves.
        keeps: It was given a connection that may leave a session behind.
        turn: When it was last given a session, counted.
        began_s: When it was started, on the monotonic clock.
    """

    def __init__(
        self,
        number: int,
        process: subprocess.Popen[bytes],
        channel: socket.socket,
        slot: Slot | None,
        failures: int,
        ledger: Ledger | None = None,
    ) -> None:
        self.number = number
        self.process = process
        self.channel = channel
        self.slot = slot
        self.failures = failures
        self.ledger = ledger
        self.peers: list[str] = []
        self.ready = False
        self.keeps = False
        self.turn = 0
        self.began_s = time.monotonic()
        self.pidfd = -1
        with contextlib.suppress(AttributeError, OSError):  # not everywhere
            self.pidfd = os.pidfd_open(process.pid)

    @property
    def places(self) -> int:
        """How many sessions it holds or opens."""
        return len(self.peers)

    def free_place(self, peer: str) -> str:
        """Take note that a session has ended; return whose it was, whatever the worker says."""
        if peer in self.peers:
            self.peers.remove(peer)
            return peer
        return self.peers.pop()

    def has_ended(self) -> bool:
        """Tell whether it has, and leave its number taken."""
        if self.process.returncode is not None:
            return True
        try:
            what = os.WEXITED | os.WNOHANG | os.WNOWAIT
            return os.waitid(os.P_PID, self.process.pid, what) is not None
        except ChildProcessError:
            return True

    def kill_group(self) -> bool:
        """Kill it and what it started in its group; False where we may not."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except PermissionError:
            return False
        except ProcessLookupError:
            pass
        return True

    def how_it_ended(self) -> str:
        """Say it in words."""
        code = self.process.wait()
        return f"was killed by {signal_name(-code)}" if code < 0 else f"ended with {code}"

    def close(self) -> None:
        """Close what we hold of it."""
        self.channel.close()
        if self.ledger is not None:
            self.ledger.close()
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1


def start_worker(
    options: WorkerOptions, number: int, slot: Slot | None = None, failures: int = 0
) -> Worker:
    """Start a worker; it ends with the thread that calls this.

    Args:
        options: What all workers are told.
        number: Its own, for ever.
        slot: Where it runs, if it has a place of its own.
        failures: How many in a row before it ended soon after they began.

    Raises:
        OSError: The system refuses.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    ledger = None
    try:
        ledger = make_ledger() if options.isolate else None
        with theirs:  # above 2, for there it has its standard streams
            channel_fd = fcntl.fcntl(theirs, fcntl.F_DUPFD_CLOEXEC, 3)
        told = dataclasses.replace(
            options,
            number=number,
            supervisor=os.getpid(),
            channel_fd=channel_fd,
            ledger_fd=-1 if ledger is None else ledger.fd,
            own_user=slot is not None and slot.user is not None,
        )
        own: dict[str, Any] = {}
        if slot is not None:
            own = {"env": slot.environ(), "umask": 0o077, **slot.credentials()}
        try:
            process = subprocess.Popen(
                [sys.executable, "-c", bootstrap(_MAIN), told.to_json()],
                pass_fds=[channel_fd] if ledger is None else [channel_fd, ledger.fd],
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C in the terminal is the supervisor's
                **own,
            )
        finally:
            os.close(channel_fd)
    except (OSError, subprocess.SubprocessError) as error:
        ours.close()
        if ledger is not None:
            ledger.close()
        who = "" if slot is None or slot.user is None else f" as user {slot.user}"
        raise OSError(f"Cannot start a process{who}: {error}") from error
    return Worker(number, process, ours, slot, failures, ledger)
