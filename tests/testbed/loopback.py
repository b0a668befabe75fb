"""Run a command in a network namespace that has a loopback interface and nothing else, as root."""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import sys


CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS = 0x8914
IFF_UP, IFF_RUNNING = 0x1, 0x40


def main() -> None:
    """Become the command."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET):
        sys.exit(f"No network namespace: {os.strerror(ctypes.get_errno())}.")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        request = struct.pack("16sh", b"lo", IFF_UP | IFF_RUNNING)
        fcntl.ioctl(sock, SIOCSIFFLAGS, request)
    os.execvp(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
