"""What an interpreter may use: bounds that the kernel keeps, and the user that it becomes."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
from dataclasses import asdict, dataclass
from typing import Any

from coding_env.server.inside import landlock


__all__ = [
    "KEEPER",
    "Confinement",
    "Limits",
    "become",
    "most_processes",
    "others_can_read",
    "prctl",
    "set_name",
]

PDEATHSIG, DUMPABLE, NO_NEW_PRIVS, CHILD_SUBREAPER = 1, 4, 38, 36  # of prctl(2)
KEEPER = "openenv-keeper"
"""Name of the process of a keeper, by which others of the same user count them."""

_KEEPCAPS, _SET_NAME, _CAPBSET_DROP, _CAP_AMBIENT, _RAISE = 8, 15, 24, 47, 2
_CAPABILITY_VERSION = 0x20080522
_CAP_DAC_READ_SEARCH = 2
_OWN_THREADS = 2  # of an interpreter
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
    processes = most_processes(limits, place)
    if place.user is not None:
        _change_user(place.user)
    if 0 in os.getresuid():
        raise PermissionError("the kernel bounds no processes of root")
    prctl(NO_NEW_PRIVS, 1)
    prctl(DUMPABLE, 1)
    prctl(PDEATHSIG, _SIGKILL)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")  # when memory runs out, rather this one than the server
    for kind, bound in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, limits.cpu_s),
        (resource.RLIMIT_FSIZE, limits.file_bytes),
        (resource.RLIMIT_NOFILE, limits.open_files),
        (resource.RLIMIT_NPROC, processes),
        (resource.RLIMIT_AS, limits.memory_bytes),
        (resource.RLIMIT_STACK, 8 << 20),
        (resource.RLIMIT_MSGQUEUE, 0),  # queues outlive their makers; see `_is_program`
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


def set_name(name: str) -> None:
    """Give this process a name of at most 15 characters."""
    ctypes.CDLL(None).prctl(_SET_NAME, name.encode(), 0, 0, 0)


def most_processes(limits: Limits, place: Confinement) -> int:
    """Return the limit of processes and threads, which the kernel counts for a user in all.

    It must not grow with what programs have started, or each one that begins while another one
    starts processes without end would be allowed more. For a user of its own it is a fixed number.
    Where users are shared, each interpreter there gets the same number on top of what the user runs
    besides; nothing that a program starts is among that.
    """
    own = limits.processes + _OWN_THREADS
    if place.user is not None:
        return own
    threads, keepers = _count(os.getuid())
    return threads + own * max(keepers, 1)


def _change_user(user: int) -> None:
    """Become a user for good, in all respects.

    Where Python's files are root's alone, one capability is kept: to read what others may not,
    which Landlock bounds. Staying root in part is no way: the kernel bounds no processes of root,
    and a process that has root as any of its users can become root in all respects.
    """
    readable = others_can_read(os.__file__)
    libc = ctypes.CDLL(None, use_errno=True)
    capability = 0
    while capability == _CAP_DAC_READ_SEARCH or libc.prctl(_CAPBSET_DROP, capability, 0, 0, 0) == 0:
        capability += 1
    prctl(_KEEPCAPS, 0 if readable else 1)
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    if readable:
        return
    kept = 1 << _CAP_DAC_READ_SEARCH
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    if (
        libc.capset(header, (ctypes.c_uint32 * 6)(kept, kept, kept)) != 0
        or libc.prctl(_CAP_AMBIENT, _RAISE, _CAP_DAC_READ_SEARCH, 0, 0) != 0
    ):
        number = ctypes.get_errno()
        raise OSError(number, f"{os.__file__} cannot be read: {os.strerror(number)}")


def _count(user: int) -> tuple[int, int]:
    """Count a user's threads, without those of programs; and the keepers among its processes."""
    threads = keepers = 0
    for name in os.listdir("/proc"):
        # A process may end at any moment.
        with contextlib.suppress(OSError):
            if name.isdigit():
                with open(f"/proc/{name}/status") as status:
                    facts = dict(line.split(":", 1) for line in status if ":" in line)
                if int(facts["Uid"].split()[0]) == user and not _is_program(name):
                    threads += int(facts["Threads"])
                    keepers += facts["Name"].strip() == KEEPER
    return threads, keepers


def _is_program(pid: str) -> bool:
    """Tell an interpreter, or what it has started, by a limit that none of them can raise again."""
    with open(f"/proc/{pid}/limits") as limits:
        return any(
            line.startswith("Max msgqueue size") and line.split()[4] == "0" for line in limits
        )
