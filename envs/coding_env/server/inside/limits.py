"""What an interpreter may use: bounds that the kernel keeps, and the user that it becomes."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
from dataclasses import asdict, dataclass
from typing import Any

from coding_env.server.inside import landlock


__all__ = ["Confinement", "Limits", "become", "others_can_read", "prctl"]

PDEATHSIG, DUMPABLE, NO_NEW_PRIVS, CHILD_SUBREAPER = 1, 4, 38, 36  # of prctl(2)
_CAPBSET_DROP = 24
_CAPABILITY_VERSION = 0x20080522
_SIGKILL = 9
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/etc", "/opt", "/proc", "/dev")


@dataclass(frozen=True)
class Limits:
    """Bounds of an interpreter.

    Attributes:
        wall_s: Seconds that a step may take.
        cpu_s: Seconds of processor time that a process may use until it is ended, over all steps.
        memory_bytes: Address space of a process.
        file_bytes: Size of a file that it writes.
        open_files: Descriptors of a process.
        processes: Processes and threads at once, in all.
    """

    wall_s: float = 10.0
    cpu_s: int = 60
    memory_bytes: int = 1 << 30
    file_bytes: int = 16 << 20
    open_files: int = 256
    processes: int = 32

    def to_data(self) -> dict[str, Any]:
        """Return the fields as plain data."""
        return asdict(self)


@dataclass(frozen=True)
class Confinement:
    """Where an interpreter is confined to.

    Attributes:
        directory: Its working directory, the only one where it can write.
        readable: What else it may read, beside the system's own directories.
        hidden: What of that it must not read.
        user: User and group that it becomes; None: that of the server.
    """

    directory: str
    readable: tuple[str, ...]
    hidden: tuple[str, ...]
    user: int | None


def become(limits: Limits, place: Confinement) -> None:
    """Give up everything that an agent's code must not have. There is no way back.

    Raises:
        OSError: The system refuses one of the steps.
    """
    if place.user is not None:
        os.setgroups([])
        os.setresgid(place.user, place.user, place.user)
        if others_can_read(os.__file__):
            os.setresuid(place.user, place.user, place.user)
        else:
            # The interpreter's own files are root's alone. A real user of its own at least has
            # its processes counted and bounded, which those of root never are.
            os.setresuid(place.user, 0, 0)
            _drop_capabilities()
    prctl(NO_NEW_PRIVS, 1)
    prctl(DUMPABLE, 1)
    prctl(PDEATHSIG, _SIGKILL)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")  # when memory runs out, rather this one than the server
    threads = _threads_of(os.getuid())
    for kind, bound in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, limits.cpu_s),
        (resource.RLIMIT_FSIZE, limits.file_bytes),
        (resource.RLIMIT_NOFILE, limits.open_files),
        (resource.RLIMIT_NPROC, threads + limits.processes),
        (resource.RLIMIT_AS, limits.memory_bytes),
        (resource.RLIMIT_STACK, 8 << 20),
        (resource.RLIMIT_MSGQUEUE, 0),  # queues outlive their makers
    ):
        _, hard = resource.getrlimit(kind)
        least = bound if hard == resource.RLIM_INFINITY else min(bound, hard)
        resource.setrlimit(kind, (least, least))
    landlock.confine([*_SYSTEM, *place.readable], [place.directory, *_DEVICES], place.hidden)


def others_can_read(path: str) -> bool:
    """Tell whether every user can read a file, as the modes of it and its directories say."""
    path = os.path.realpath(path)
    readable = bool(os.stat(path).st_mode & 0o004)
    while readable and path != "/":
        path = os.path.dirname(path)
        readable = bool(os.stat(path).st_mode & 0o001)
    return readable


def prctl(option: int, value: int) -> None:
    """Set an attribute of this process.

    Raises:
        OSError: The system refuses it.
    """
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl {option}: {os.strerror(number)}")


def _drop_capabilities() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    capability = 0
    while libc.prctl(_CAPBSET_DROP, capability, 0, 0, 0) == 0:
        capability += 1
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    if libc.capset(header, (ctypes.c_uint32 * 6)()) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"capset: {os.strerror(number)}")


def _threads_of(user: int) -> int:
    """Count the processes and threads of a user, which the kernel's limit counts together."""
    count = 0
    for name in os.listdir("/proc"):
        # A process may end at any moment.
        with contextlib.suppress(OSError):
            if name.isdigit():
                with open(f"/proc/{name}/status") as status:
                    facts = dict(line.split(":", 1) for line in status if ":" in line)
                if int(facts["Uid"].split()[0]) == user:
                    count += int(facts["Threads"])
    return count
