"""What the workers of a supervisor count, added up."""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import threading
import time
from http import HTTPStatus
from typing import Any

from openenv_gym import errors
from openenv_gym.server.figures import Figures
from openenv_gym.server.workers.staff import Staff


__all__ = ["FIGURES_PATH", "Census", "ask_worker", "ask_workers"]

_log = logging.getLogger("openenv_gym.server")

FIGURES_PATH = "/figures"
_ANSWER_S = 2.0  # whoever takes longer counts with what it last said
_MAX_ANSWER_BYTES = 4 << 20


class Census:
    """Asks all workers, and remembers what those said that are gone.

    Args:
        staff: The workers.
    """

    def __init__(self, staff: Staff) -> None:
        self._staff = staff
        self._lock = threading.Lock()
        self._known: dict[int, Figures] = {}
        self._gone = Figures()

    def take(self) -> Figures:
        """Return the sum of what workers have counted since the beginning."""
        with self._lock:
            lines = self._staff.visit_each(_ANSWER_S)
            for number in [each for each in self._known if lines and each not in lines]:
                self._gone.merge(self._known.pop(number))
            for number, answer in _ask_all(lines, FIGURES_PATH, _ANSWER_S).items():
                try:
                    self._known[number] = Figures.from_wire(answer)
                except ValueError as error:
                    _log.warning("Worker %d tells no figures: %s", number, error)
            total = self._gone.copy()
            for figures in self._known.values():
                total.merge(figures)
            return total


def ask_worker(staff: Staff, path: str, timeout_s: float) -> dict[str, Any]:
    """Get what a worker answers on one of its routes.

    Raises:
        TransportError: It does not answer, or no map.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with ours:
        _send_request(ours, path)
        staff.visit(theirs)
        return _read_answer(ours, path, time.monotonic() + timeout_s)


def ask_workers(staff: Staff, path: str, timeout_s: float) -> dict[int, dict[str, Any]]:
    """Get what each worker that has a session answers on one of its routes, by its number."""
    return _ask_all(staff.visit_each(timeout_s, with_sessions=True), path, timeout_s)


def _ask_all(
    lines: dict[int, socket.socket], path: str, timeout_s: float
) -> dict[int, dict[str, Any]]:
    end_s = time.monotonic() + timeout_s
    for sock in lines.values():
        with contextlib.suppress(OSError):
            _send_request(sock, path)
    answers = {}
    for number, sock in lines.items():
        with sock:
            try:
                answers[number] = _read_answer(sock, path, end_s)
            except (errors.TransportError, ValueError) as error:
                _log.warning("Worker %d does not answer %s: %s", number, path, error)
    return answers


def _send_request(sock: socket.socket, path: str) -> None:
    sock.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())


def _read_answer(sock: socket.socket, path: str, end_s: float) -> dict[str, Any]:
    received = b""
    with contextlib.suppress(OSError):
        while len(received) < _MAX_ANSWER_BYTES:
            sock.settimeout(max(end_s - time.monotonic(), 0.001))
            if not (data := sock.recv(1 << 16)):
                break
            received += data
    head, _, content = received.partition(b"\r\n\r\n")
    if f" {HTTPStatus.OK.value} ".encode() not in head.partition(b"\r\n")[0]:
        raise errors.TransportError(f"No worker answers {path}.")
    try:
        answer = json.loads(content)
    except RecursionError:  # as deep as that answers somebody who means harm
        answer = None
    if not isinstance(answer, dict):
        raise errors.TransportError(f"A worker answered no map on {path}.")
    return answer
