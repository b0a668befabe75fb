"""Attacks on what a server knows, and on who could give more than it has."""

from __future__ import annotations


__all__ = ["docker_socket", "read_server", "search", "trace"]


def search(backwards: str) -> tuple[bool, str]:
    """Look for a secret in environments, command lines, and small files.

    It is told backwards, lest what is found is the question.
    """
    import glob
    import os
    import tempfile

    secret = backwards[::-1].encode()
    paths = glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline")
    for place in ("/run", tempfile.gettempdir(), "/run/secrets", os.path.expanduser("~")):
        for directory, _, names in os.walk(place):
            paths += [os.path.join(directory, name) for name in names][:1000]
    read = 0
    for path in paths:
        try:
            if os.path.isfile(path):
                with open(path, "rb") as file:
                    read += 1
                    if secret in file.read(1 << 20):
                        return True, f"found in {path}"
        except OSError:
            continue
    return False, f"not in {read} files that could be read"


def read_server(of_others: bool) -> tuple[bool, str]:
    """Read the memory, the environment and the descriptors of the server.

    A program of the same user tries it; where the code that runs this has a process of its own,
    `of_others`, it tries that of the supervisor.
    """
    import os

    server = os.getppid() if of_others else os.getpid()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        found = []
        for name in ("environ", "mem", "maps", "fd"):
            path = f"/proc/{server}/{name}"
            try:
                if name == "fd":
                    os.listdir(path)
                elif name == "mem":
                    os.close(os.open(path, os.O_RDWR))
                else:
                    with open(path, "rb") as file:
                        file.read(1)
                found.append(name)
            except OSError:
                continue
        os.write(write, " ".join(found).encode() or b"-")
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as file:
        found_text = file.read()
    os.waitpid(child, 0)
    return found_text != "-", found_text.replace("-", "EACCES")


def trace(pid: int | None, of_others: bool) -> tuple[bool, str]:
    """Trace a process, and so become it; the server, where none is named."""
    import ctypes
    import errno
    import os
    import signal

    victim = pid or (os.getppid() if of_others else os.getpid())
    child = os.fork()
    if child == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        # PTRACE_SEIZE does not stop it; it is let go when this process ends.
        done = libc.ptrace(0x4206, victim, None, None) == 0
        os._exit(0 if done else ctypes.get_errno())
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        return False, signal.Signals(os.WTERMSIG(status)).name
    return status == 0, "traced" if status == 0 else errno.errorcode[os.WEXITSTATUS(status)]


def docker_socket() -> tuple[bool, str]:
    """Ask the Docker daemon for its version: who may do so is root on its machine."""
    import socket

    refusal = ""
    for path in ("/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock"):
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(3)
            try:
                sock.connect(path)
                sock.sendall(b"GET /version HTTP/1.0\r\n\r\n")
                return bool(sock.recv(64)), f"{path} answers"
            except OSError as error:
                refusal = error.strerror or str(error)
    return False, refusal
