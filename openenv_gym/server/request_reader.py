"""Bytes of a connection to the request that it begins with. Nothing here does I/O."""

from __future__ import annotations

import threading
from dataclasses import replace

from openenv_gym.server.http import MAX_HEAD_BYTES, Call, Handover, Router, Upgrade
from openenv_gym.server.http_messages import HttpResponse


__all__ = ["BodyRoom", "RequestReader"]

_HEAD_END = b"\r\n\r\n"
_TLS_HANDSHAKE = b"\x16\x03"
_MAX_READ_BYTES = 1 << 20
_SMALL_BODY_BYTES = 64 << 10  # always taken: a connection costs about as much by itself
_ROOM = 4  # largest bodies at once


class BodyRoom:
    """What the bodies of all requests that are being sent or answered may take together.

    A body is collected before anybody knows whether there is a place for its request.

    Args:
        max_body_bytes: The largest one.
    """

    def __init__(self, max_body_bytes: int) -> None:
        self._free_bytes = _ROOM * max_body_bytes
        self._lock = threading.Lock()

    def take(self, size_bytes: int) -> int | None:
        """Take room for a body; return what `give` gets back, None where there is too little."""
        if size_bytes <= _SMALL_BODY_BYTES:
            return 0
        with self._lock:
            if size_bytes > self._free_bytes:
                return None
            self._free_bytes -= size_bytes
        return size_bytes

    def give(self, size_bytes: int) -> None:
        """Give back what was taken."""
        with self._lock:
            self._free_bytes += size_bytes


class RequestReader:
    """Reads one request; what comes after it is left.

    Args:
        router: Decides about it.

    Attributes:
        call: What the head asked for, once it is here, where a handler is to answer.
        rest: What came beyond the request.
    """

    def __init__(self, router: Router) -> None:
        self._router = router
        self._data = bytearray()
        self._owes_go = False
        self.call: Call | None = None
        self.rest = b""

    @property
    def wanted_bytes(self) -> int:
        """How much is worth reading at once."""
        if self.call is None:
            return MAX_HEAD_BYTES
        return min(max(self.call.body_bytes - len(self._data), 1), _MAX_READ_BYTES)

    def take_go(self) -> bool:
        """Tell, once, that the client is to be told to send its body."""
        owes, self._owes_go = self._owes_go, False
        return owes

    def feed(self, data: bytes) -> Upgrade | Call | Handover | HttpResponse | None:
        """Take bytes.

        Returns:
            What is to be done, with the body in the request of a `Call`; None while more is to
            come.
        """
        self._data += data
        if self.call is None:
            answer = self._read_head()
            if not isinstance(answer, Call):
                return answer
            self.call = answer
            self._owes_go = answer.expects_go and len(self._data) < answer.body_bytes
        if len(self._data) < self.call.body_bytes:
            return None
        body = bytes(memoryview(self._data)[: self.call.body_bytes])
        self.rest = bytes(memoryview(self._data)[self.call.body_bytes :])
        self._data = bytearray()
        return self.call._replace(request=replace(self.call.request, body=body))

    def _read_head(self) -> Upgrade | Call | Handover | HttpResponse | None:
        if self._data.startswith(_TLS_HANDSHAKE):
            return self._router.refuse_tls()  # at once: its head would never end
        end = self._data.find(_HEAD_END)
        if end < 0 and len(self._data) <= MAX_HEAD_BYTES:
            return None
        if end < 0 or end > MAX_HEAD_BYTES:
            return self._router.too_large()
        end += len(_HEAD_END)
        head = bytes(memoryview(self._data)[:end])
        answer = self._router.answer(head)
        if isinstance(answer, (Upgrade, Handover)):
            self.rest = bytes(memoryview(self._data)[end:])
        del self._data[:end]
        return answer
