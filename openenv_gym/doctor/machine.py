"""Checks of this machine's kernel: what isolates, what carries data, what runs out."""

from __future__ import annotations

import ctypes
import glob
import os
import platform
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from openenv_gym.doctor.checks import Check, State


__all__ = ["check_machine"]

_AREA = "machine"
_LANDLOCK_CREATE_RULESET = 444  # the same number on every architecture
_SCOPES_ABI = 6
_LEAST_FILES = 4096
_LEAST_SHM_BYTES = 64 << 20
_CLONE_NEWUSER = 0x10000000


def check_machine() -> Iterator[Check]:
    """Look at the kernel."""
    yield Check(_AREA, "system", State.OK, f"{platform.system()} {platform.release()}")
    yield _unix_sockets()
    yield _open_files()
    if sys.platform != "linux":
        yield Check(
            _AREA,
            "kernel features",
            State.ABSENT,
            "not Linux",
            'provider="docker" has a Linux machine of its own.',
        )
        return
    yield _seccomp()
    yield _cgroups()
    yield _user_namespaces()
    yield _landlock()
    yield _shared_memory()
    yield _memfd()
    yield _gpu()


def _unix_sockets() -> Check:
    with tempfile.TemporaryDirectory(prefix="openenv-") as directory:
        path = os.path.join(directory, "s")
        try:
            with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as sock:
                listener.bind(path)
                listener.listen()
                sock.connect(path)
        except OSError as error:
            fix = "Set TMPDIR to a short path on a local file system."
            return Check(_AREA, "Unix sockets", State.FAILED, f"{path}: {error}", fix)
    return Check(_AREA, "Unix sockets", State.OK, f"in {tempfile.gettempdir()}")


def _open_files() -> Check:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    shown = "no limit" if hard == resource.RLIM_INFINITY else f"{soft}, can be raised to {hard}"
    if hard == resource.RLIM_INFINITY or hard >= _LEAST_FILES:
        return Check(_AREA, "open files", State.OK, shown)
    fix = f"Raise the hard limit to {_LEAST_FILES} or more: ulimit -Hn, or limits.conf."
    return Check(_AREA, "open files", State.FAILED, shown, fix)


def _seccomp() -> Check:
    path = Path("/proc/sys/kernel/seccomp/actions_avail")
    if path.exists():
        return Check(_AREA, "seccomp", State.OK, path.read_text().strip())
    fix = "Use a kernel with CONFIG_SECCOMP_FILTER: containers are open to more of it without."
    return Check(_AREA, "seccomp", State.FAILED, "no filters", fix)


def _cgroups() -> Check:
    if Path("/sys/fs/cgroup/cgroup.controllers").exists():
        found = Path("/sys/fs/cgroup/cgroup.controllers").read_text().split()
        version = "2"
    else:
        found = [each.name for each in Path("/sys/fs/cgroup").glob("*") if each.is_dir()]
        version = "1"
    missing = {"cpu", "memory", "pids"} - set(found)
    if missing:
        text = f"version {version}, without {', '.join(sorted(missing))}"
        fix = "Mount or enable these controllers: limits of containers need them."
        return Check(_AREA, "cgroups", State.FAILED, text, fix)
    return Check(_AREA, "cgroups", State.OK, f"version {version}")


def _user_namespaces() -> Check:
    # In a program of its own: a namespace is entered for good.
    code = f"import ctypes, sys; sys.exit(ctypes.CDLL(None).unshare({_CLONE_NEWUSER}) != 0)"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], timeout=30, check=False)
    if done.returncode == 0:
        return Check(_AREA, "user namespaces", State.OK, "may be made")
    fix = "Only rootless Docker needs them: sysctl user.max_user_namespaces=10000."
    return Check(_AREA, "user namespaces", State.ABSENT, "may not be made", fix)


def _landlock() -> Check:
    version = ctypes.CDLL(None).syscall(_LANDLOCK_CREATE_RULESET, None, 0, 1)
    if version >= _SCOPES_ABI:
        return Check(_AREA, "Landlock", State.OK, f"version {version}")
    text = f"version {version}" if version > 0 else "not here"
    fix = (
        "Use Linux 6.12 or newer: without it, sessions in one container could reach each other's "
        "abstract sockets (a container for each has no need of it)."
    )
    return Check(_AREA, "Landlock", State.ABSENT, text, fix)


def _shared_memory() -> Check:
    try:
        free = shutil.disk_usage("/dev/shm")
    except OSError as error:
        return Check(_AREA, "/dev/shm", State.ABSENT, str(error), "Mount a tmpfs there.")
    text = f"{free.total >> 20} MiB, {free.free >> 20} MiB free"
    if free.free >= _LEAST_SHM_BYTES:
        return Check(_AREA, "/dev/shm", State.OK, text)
    fix = "Make it larger: mount -o remount,size=1G /dev/shm, or docker run --shm-size 1g."
    return Check(_AREA, "/dev/shm", State.FAILED, text, fix)


def _memfd() -> Check:
    try:
        os.close(os.memfd_create("openenv", os.MFD_ALLOW_SEALING))
    except OSError as error:
        fix = "Allow memfd_create: large observations go through sockets without it."
        return Check(_AREA, "memfd", State.FAILED, str(error), fix)
    return Check(_AREA, "memfd", State.OK, "with seals")


def _gpu() -> Check:
    devices = glob.glob("/dev/nvidia[0-9]*") + glob.glob("/dev/dri/renderD*")
    if devices:
        return Check(_AREA, "GPU", State.OK, ", ".join(sorted(devices)))
    return Check(_AREA, "GPU", State.ABSENT, "none", "Only Resources(gpus=...) needs one.")
