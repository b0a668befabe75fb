"""Memory that a client shares with its session (docs/protocol.md, section 4.6)."""

from __future__ import annotations

import array
import contextlib
import mmap
import os
import socket
import sys

from openenv_gym import errors


__all__ = ["Descriptor", "can_share", "map_memory"]


def can_share(sock: socket.socket) -> bool:
    """Tell whether a descriptor of memory can arrive over a connection."""
    return sys.platform == "linux" and sock.family == socket.AF_UNIX


class Descriptor:
    """Receives bytes of a connection, and the one descriptor that may come along with them."""

    def __init__(self) -> None:
        self._fd = -1

    def receive(self, sock: socket.socket, buffer: memoryview) -> int:
        """Receive bytes into a buffer, as `socket.recv_into` does."""
        room = socket.CMSG_SPACE(array.array("i").itemsize)
        count, ancillary, _, _ = sock.recvmsg_into([buffer], room, socket.MSG_CMSG_CLOEXEC)
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                found = array.array("i")
                found.frombytes(data[: len(data) - len(data) % found.itemsize])
                for fd in found:
                    self.close()  # the last one counts
                    self._fd = fd
        return count

    def take(self) -> int | None:
        """Return the descriptor, which is the caller's from now on; None where none came."""
        fd, self._fd = self._fd, -1
        return None if fd < 0 else fd

    def close(self) -> None:
        """Close what nobody took; safe to repeat."""
        fd = self.take()
        if fd is not None:
            with contextlib.suppress(OSError):
                os.close(fd)


def map_memory(fd: int, size_bytes: int, max_bytes: int) -> memoryview:
    """Map a client's memory.

    Args:
        fd: Its descriptor; closed in any case.
        size_bytes: How much to map.
        max_bytes: How much that may be.

    Raises:
        ProtocolError: It is no such memory: the client could take it away again, and this process
            would die of the next access.
    """
    assert sys.platform == "linux"
    import fcntl

    try:
        if size_bytes > max_bytes:
            raise errors.ProtocolError(
                f"SHARE came with {size_bytes} bytes, expected at most {max_bytes}.", field="size"
            )
        try:
            sealed = fcntl.fcntl(fd, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK
        except OSError:
            sealed = 0
        if not sealed or os.fstat(fd).st_size < size_bytes:
            raise errors.ProtocolError(
                f"SHARE came with a file that is not sealed against shrinking, or has less than "
                f"{size_bytes} bytes.",
                field="size",
                hint="Expected an anonymous file (memfd_create) with F_SEAL_SHRINK.",
            )
        try:
            return memoryview(mmap.mmap(fd, size_bytes, mmap.MAP_SHARED))
        except OSError as error:
            raise errors.ProtocolError(
                f"The memory that came with SHARE cannot be mapped: {error}.", field="size"
            ) from error
    finally:
        os.close(fd)
