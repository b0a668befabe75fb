"""Attacks on a neighbour, on what comes after, and on the owner's connection."""

from __future__ import annotations


__all__ = [
    "abstract_socket",
    "break_frames",
    "close_output",
    "files_of",
    "ignore_term",
    "leave_daemons",
    "live",
    "look_for",
    "loopback_socket",
    "signals_to",
]


def live() -> tuple[int, str, str, int | None]:
    """Be a neighbour: keep a secret in a file, and listen. (No attack: somebody to attack)."""
    import contextlib
    import os
    import secrets
    import socket
    import tempfile

    path = os.path.join(tempfile.gettempdir(), "openenv-secret")
    with open(path, "w") as file:
        file.write("secret")
    name = secrets.token_hex(8)
    sock = socket.socket(socket.AF_UNIX)
    sock.bind("\0" + name)
    sock.listen()
    listeners, port = [sock], None
    with contextlib.suppress(OSError):  # it may have no sockets of that kind
        listeners.append(socket.create_server(("127.0.0.1", 0)))
        port = listeners[-1].getsockname()[1]
    globals()["openenv_listeners"] = listeners
    return os.getpid(), path, name, port


def signals_to(pid: int) -> tuple[bool, str]:
    """Stop a neighbour, and let it go on."""
    import os
    import signal

    os.kill(pid, signal.SIGSTOP)
    os.kill(pid, signal.SIGCONT)
    return True, "stopped it"


def files_of(path: str) -> tuple[bool, str]:
    """Read a neighbour's file."""
    with open(path) as file:
        return file.read() == "secret", "read it"


def abstract_socket(name: str) -> tuple[bool, str]:
    """Connect to a neighbour's abstract socket, which has no permissions."""
    import socket

    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(3)
        sock.connect("\0" + name)
    return True, "connected"


def loopback_socket(port: int | None) -> tuple[bool, str]:
    """Connect to a neighbour on the loopback interface, or see whether one could listen there."""
    import socket

    if port is None:
        socket.create_server(("127.0.0.1", 0)).close()
        return True, "could listen"
    socket.create_connection(("127.0.0.1", port), 3).close()
    return True, "connected"


def leave_daemons(marker: str) -> tuple[bool, str]:
    """Start programs that get away from parent, group and session, and ignore SIGTERM."""
    import os
    import subprocess
    import sys

    code = (
        "import signal, time\n"
        "for each in (1, 2, 15): signal.signal(each, signal.SIG_IGN)\n"
        "time.sleep(600)"
    )
    for _ in range(3):
        child = os.fork()
        if child == 0:
            os.setsid()
            null = subprocess.DEVNULL
            subprocess.Popen(
                [sys.executable, "-S", "-c", code, marker],
                stdin=null,
                stdout=null,
                stderr=null,
                start_new_session=True,
            )
            os._exit(0)
        os.waitpid(child, 0)
    return True, "3 daemons"


def look_for(marker: str) -> tuple[bool, str]:
    """Tell whether a program with this in its command line runs."""
    import glob
    import os

    count = 0
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        count += marker.encode() in words and int(path.split("/")[2]) != os.getpid()
    return count > 0, f"{count} run"


def ignore_term() -> tuple[bool, str]:
    """Ignore the signal that asks a server to end."""
    import ctypes

    libc = ctypes.CDLL(None)
    libc.signal.restype = ctypes.c_void_p
    libc.signal(15, ctypes.c_void_p(1))  # SIG_IGN, from whichever thread
    with open("/proc/self/status") as file:
        ignored = int(dict(line.split(":", 1) for line in file)["SigIgn"], 16)
    return bool(ignored >> 14 & 1), "ignored"


def close_output() -> tuple[bool, str]:
    """Close the standard streams under the server, which writes its log there."""
    import os

    for number in (1, 2):
        os.close(number)
    try:
        os.write(1, b"x")
    except OSError:
        return True, "closed"
    return False, "still open"


def break_frames() -> tuple[bool, str]:
    """Send the owner the beginning of a frame of 2**62 bytes, and then data for a while."""
    import os
    import socket
    import stat

    head, sent = b"\x82\x7f" + (1 << 62).to_bytes(8, "big"), 0
    for name in os.listdir("/proc/self/fd"):
        try:
            if not stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                continue
            with socket.socket(fileno=os.dup(int(name))) as sock:
                if sock.type & socket.SOCK_STREAM and not sock.getsockopt(1, 30):  # SO_ACCEPTCONN
                    sock.getpeername()
                    sent += sock.send(head, socket.MSG_DONTWAIT)
                    for _ in range(64):
                        sock.send(bytes(1 << 16), socket.MSG_DONTWAIT)
        except OSError:
            continue
    return sent > 0, f"sent to {sent // len(head)} sockets"
