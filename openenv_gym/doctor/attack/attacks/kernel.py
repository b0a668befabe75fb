"""Attacks on the kernel's own doors: rights, namespaces, and calls that faults were found in."""

from __future__ import annotations


__all__ = ["become", "call", "capabilities", "mount", "setuid_programs", "unshare"]


def become() -> tuple[bool, str]:
    """Become another user, or root."""
    import os

    for user in (0, os.getuid() + 1):
        child = os.fork()
        if child == 0:
            try:
                if user == os.getuid():
                    os._exit(1)
                os.setresuid(user, user, user)
                os._exit(0)
            except OSError:
                os._exit(1)
        if os.waitpid(child, 0)[1] == 0:
            return True, f"became user {user}"
    return False, "EPERM"


def setuid_programs() -> tuple[bool, str]:
    """Run programs that are to run as root, and look whether they do."""
    import os
    import stat
    import subprocess
    import time

    found = []
    for place in ("/bin", "/usr/bin", "/usr/sbin", "/usr/lib/openssh"):
        for entry in os.scandir(place) if os.path.isdir(place) else ():
            facts = entry.stat(follow_symlinks=False)
            if stat.S_ISREG(facts.st_mode) and facts.st_mode & stat.S_ISUID and facts.st_uid == 0:
                found.append(entry.path)
    for path in found:
        pipe = subprocess.PIPE
        with subprocess.Popen([path], stdin=pipe, stdout=pipe, stderr=pipe) as process:
            end_s, runs_as = time.monotonic() + 0.5, ""
            while time.monotonic() < end_s and process.poll() is None and runs_as != "0":
                try:
                    with open(f"/proc/{process.pid}/status") as file:
                        lines = dict(line.split(":", 1) for line in file)
                    runs_as = lines["Uid"].split()[1]
                except (OSError, KeyError, IndexError):
                    break
                time.sleep(0.01)
            try:
                process.kill()
            except PermissionError:
                runs_as = "0"
            process.stdin.close() if process.stdin else None
            if runs_as == "0" and os.getuid() != 0:
                return True, f"{path} ran as root"
    if os.getuid() == 0:
        return False, "is root already"
    return False, f"{len(found)} programs ran as this user" if found else "no such program here"


def capabilities() -> tuple[bool, str]:
    """Hold a capability, or be able to get one."""
    with open("/proc/self/status") as file:
        status = dict(line.split(":", 1) for line in file)
    held = {name: status[name].strip() for name in ("CapEff", "CapPrm", "CapInh", "CapAmb")}
    return any(int(value, 16) for value in held.values()), f"CapEff {held['CapEff']}"


def unshare() -> tuple[bool, str]:
    """Make namespaces: in one of its own a program is root, before much more of the kernel."""
    import ctypes
    import errno
    import os

    libc = ctypes.CDLL(None, use_errno=True)
    # CLONE_NEWUSER, NEWNS, NEWNET, NEWPID
    for flags in (0x10000000, 0x00020000, 0x40000000, 0x20000000):
        child = os.fork()
        if child == 0:
            os._exit(0 if libc.unshare(flags) == 0 else ctypes.get_errno())
        status = os.waitpid(child, 0)[1]
        if status == 0:
            return True, f"unshare({flags:#x})"
        refusal = errno.errorcode.get(os.WEXITSTATUS(status), "?")
    return False, refusal


def mount(place: str) -> tuple[bool, str]:
    """Mount something, or make a mount writable."""
    import ctypes
    import errno
    import os

    libc = ctypes.CDLL(None, use_errno=True)
    os.makedirs(place, exist_ok=True) if not os.path.isdir(place) else None
    for source, kind, flags in ((b"none", b"tmpfs", 0), (b"/tmp", None, 4096), (b"none", None, 32)):
        # nothing; MS_BIND; MS_REMOUNT
        if libc.mount(source, place.encode(), kind, flags, None) == 0:
            libc.umount2(place.encode(), 2)
            return True, f"mounted over {place}"
    return False, errno.errorcode.get(ctypes.get_errno(), "?")


def call(name: str) -> tuple[bool, str]:
    """Make a system call that no environment needs."""
    import ctypes
    import errno
    import os
    import platform

    column = {"x86_64": 0, "aarch64": 1}[platform.machine()]
    space = ctypes.create_string_buffer(256)
    # struct perf_event_attr: a software event, the size of this; nothing else.
    perf = ctypes.create_string_buffer(
        (1).to_bytes(4, "little") + (128).to_bytes(4, "little") + bytes(120), 128
    )
    attempts = {
        "bpf": (
            (321, 280),
            (0, bytes([2]) + bytes(3) + bytes([4, 0, 0, 0, 8, 0, 0, 0, 1]) + bytes(59), 72),
        ),
        "io_uring": ((425, 425), (4, space)),
        "keyctl": ((250, 219), (0, -3, 1)),  # the id of its session's keyring
        "perf": ((298, 241), (perf, 0, -1, -1, 0)),
        "userfaultfd": ((323, 282), (1,)),
    }
    numbers, arguments = attempts[name]
    libc = ctypes.CDLL(None, use_errno=True)
    result = libc.syscall(numbers[column], *arguments)
    if result < 0:
        return False, errno.errorcode.get(ctypes.get_errno(), "?")
    if name != "keyctl":
        os.close(result)
    return True, "the kernel did it"
