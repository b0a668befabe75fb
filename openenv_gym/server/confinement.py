"""Doors of the kernel that a server closes behind itself, for good, before any environment is made.

They hold for everything that it starts, and come on top of what a container runtime closes: a
profile of the runtime may be old (that of Docker 20.10 leaves io_uring open, which later ones
closed), and Swarm takes none at all. Neither asks for any right but "no new privileges".
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys
from collections.abc import Iterable

from openenv_gym.errors import IsolationError


__all__ = ["close_system_calls", "keep_to_itself"]

_REFUSED = {
    # name: number on x86_64, number on aarch64. Those from 424 on are the same everywhere.
    "add_key": (248, 217),
    "bpf": (321, 280),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "keyctl": (250, 219),
    "perf_event_open": (298, 241),
    "request_key": (249, 218),
    "userfaultfd": (323, 282),
}
"""What no environment needs, and what faults of the kernel were often found in."""

_FAMILIES = (1, 2, 10, 16)
"""Sockets that may be made: Unix, IPv4, IPv6, netlink (which lists interfaces).

No network namespace holds back AF_VSOCK, which leads from a virtual machine to its host.
"""
_LOCAL_FAMILIES = (1, 16)
"""The same without IPv4 and IPv6."""

_MACHINES = {  # AUDIT_ARCH_*, column of `_REFUSED`, number of socket(2), of seccomp(2)
    "x86_64": (0xC000003E, 0, 41, 317),
    "aarch64": (0xC00000B7, 1, 198, 277),
}
_X32 = 0x40000000  # from here on a second set of numbers for the same calls, on x86_64

_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06  # of classic BPF
_NUMBER_AT, _ARCH_AT, _FIRST_ARGUMENT_AT = 0, 4, 16  # in struct seccomp_data
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000
_SET_MODE_FILTER, _ALL_THREADS = 1, 1

_CREATE_RULESET, _RESTRICT_SELF = 444, 446
_RULESET_VERSION = 1
_SCOPES_SINCE = 6
_SCOPE_ABSTRACT_UNIX, _SCOPE_SIGNAL = 1, 2


def close_system_calls(*, ip: bool = True) -> bool:
    """Refuse system calls from now on, to this process and all that it starts.

    It may be called once more, with less left open.

    Args:
        ip: Sockets of IPv4 and IPv6 may be made. Where there is no network they lead to the
            loopback interface alone, which all sessions of a container share.

    Returns:
        Whether that was done: not where the kernel is not Linux, or the processor an unusual one.

    Raises:
        IsolationError: The kernel takes no filter. Before it does, this process must have given
            up gaining privileges.
    """
    machine = _MACHINES.get(platform.machine())
    if sys.platform != "linux" or machine is None or struct.calcsize("P") != 8:
        return False
    code = b"".join(_filter(*machine[:3], _FAMILIES if ip else _LOCAL_FAMILIES))
    buffer = ctypes.create_string_buffer(code, len(code))
    # struct sock_fprog: how many instructions, and where they are.
    program = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(machine[3], _SET_MODE_FILTER, _ALL_THREADS, program) != 0:
        raise IsolationError(
            "The kernel does not let this process close system calls (seccomp): "
            f"{os.strerror(ctypes.get_errno())}.",
            hint="Start the container with no-new-privileges, and with the runtime's own seccomp "
            "profile or none.",
        )
    return True


def _filter(
    arch: int, column: int, socket_number: int, families: tuple[int, ...]
) -> Iterable[bytes]:
    """Return the instructions: what is not named is allowed."""
    yield _instruction(_LOAD, _ARCH_AT)
    yield _instruction(_EQUAL, arch, skip_if=1)
    # Programs of another architecture, whose calls have other numbers.
    yield _instruction(_RETURN, _REFUSE | errno.ENOSYS)
    yield _instruction(_LOAD, _NUMBER_AT)
    if column == 0:
        yield _instruction(_AT_LEAST, _X32, skip_unless=1)
        yield _instruction(_RETURN, _REFUSE | errno.ENOSYS)
    for numbers in _REFUSED.values():
        yield _instruction(_EQUAL, numbers[column], skip_unless=1)
        yield _instruction(_RETURN, _REFUSE | errno.EPERM)
    yield _instruction(_EQUAL, socket_number, skip_if=1)
    yield _instruction(_RETURN, _ALLOW)
    yield _instruction(_LOAD, _FIRST_ARGUMENT_AT)
    for family in families:
        yield _instruction(_EQUAL, family, skip_unless=1)
        yield _instruction(_RETURN, _ALLOW)
    yield _instruction(_RETURN, _REFUSE | errno.EAFNOSUPPORT)


def _instruction(code: int, value: int, *, skip_if: int = 0, skip_unless: int = 0) -> bytes:
    return struct.pack("HBBI", code, skip_if, skip_unless, value)


def keep_to_itself() -> bool:
    """Reach no abstract Unix socket and signal no process but one's own, from now on.

    Abstract sockets have no permissions: whoever shares the network can connect. This holds for
    the calling thread and what it starts.

    Returns:
        Whether that was done: the kernel must be Linux 6.12 or newer, with Landlock enabled.
    """
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(_CREATE_RULESET, None, 0, _RULESET_VERSION) < _SCOPES_SINCE:
        return False
    # struct landlock_ruleset_attr: no rule for files and the network, and what to stay within.
    attributes = struct.pack("QQQ", 0, 0, _SCOPE_ABSTRACT_UNIX | _SCOPE_SIGNAL)
    ruleset = libc.syscall(_CREATE_RULESET, attributes, len(attributes), 0)
    if ruleset < 0:
        return False
    try:
        return bool(libc.syscall(_RESTRICT_SELF, ruleset, 0) == 0)
    finally:
        os.close(ruleset)
