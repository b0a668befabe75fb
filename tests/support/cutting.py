"""A network that breaks where a test wants it to."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from dataclasses import dataclass, field

from openenv_gym.client import Address, Loss, not_lost


@dataclass
class CuttingAddress:
    """Passes bytes on, and cuts the connection after so many of them, once.

    `cut_up` counts bytes of the client, `cut_down` bytes of the server, both from the moment they
    are set. `descriptors` passes on those that come along with the client's bytes, too.
    """

    target: Address
    cut_up: int | None = None
    cut_down: int | None = None
    descriptors: bool = False
    cuts: int = 0
    bytes_down: int = 0
    dials: int = 0
    uri: str = "ws://localhost/ws"
    _open: list[socket.socket] = field(default_factory=list)
    _threads: list[threading.Thread] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def dial(self, timeout_s: float, why_lost: Loss = not_lost) -> socket.socket:
        ours, near = socket.socketpair()
        far = self.target.dial(timeout_s, why_lost)
        far.settimeout(None)
        self.dials += 1
        self._open += [near, far]
        for source, sink, up in ((near, far, True), (far, near, False)):
            thread = threading.Thread(target=self._pump, args=(source, sink, up), daemon=True)
            thread.start()
            self._threads.append(thread)
        return ours

    def _pump(self, source: socket.socket, sink: socket.socket, up: bool) -> None:
        name = "cut_up" if up else "cut_down"
        with contextlib.suppress(OSError):
            while True:
                data, fds, _, _ = socket.recv_fds(source, 65536, int(self.descriptors))
                if not data:
                    break
                with self._lock:
                    self.bytes_down += 0 if up else len(data)
                    left = getattr(self, name)
                    cut = left is not None and len(data) > left
                    if cut:
                        data = data[:left]
                        setattr(self, name, None)
                        self.cuts += 1
                    elif left is not None:
                        setattr(self, name, left - len(data))
                sent = socket.send_fds(sink, [data], fds) if fds and data else 0
                for fd in fds:
                    os.close(fd)
                sink.sendall(data[sent:])
                if cut:
                    break
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for end in self._open:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for end in self._open:
            end.close()

    def __str__(self) -> str:
        return f"cutting {self.target}"
