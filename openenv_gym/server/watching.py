"""Those who watch a session that somebody else runs (docs/protocol.md, section 4.9).

A session that nobody watches looks at one attribute for it. One that is watched tells each watcher
what its operations lead to; who takes it too slowly misses some, and nobody waits.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from openenv_gym import errors
from openenv_gym.protocol.codec import encode_packet
from openenv_gym.protocol.messages import Seen
from openenv_gym.server.session import Outlet, Session
from openenv_gym.server.sights import See


__all__ = ["Watcher"]

_log = logging.getLogger(__name__)

_INTERVAL_S = 1 / 60  # as often as a screen shows something new


class Watcher:
    """Somebody who watches; to the connection it is what a session is to others.

    Args:
        session: Who is watched.
        connection: Who is told.
        see: Tells what an operation led to.
        draw: Draws what the session's environment shows; None where that would disturb it.
    """

    def __init__(
        self,
        session: Session,
        connection: Outlet,
        see: See,
        draw: Callable[[], Any] | None,
    ) -> None:
        self.name = session.name
        self._session = session
        self._connection = connection
        self._see = see
        self._draw = draw
        self._telling = threading.Lock()
        self._due_s = 0.0
        self._episode = self._step = self._skipped = 0
        self._total = 0.0

    # -- for the watched session --------------------------------------------------------------

    def tell(self, op: str, args: list[Any], value: Any) -> None:
        """Tell what an operation led to; nothing of this concerns who is watched."""
        try:
            with self._telling:
                self._tell(op, args, value)
        except Exception:
            _log.warning("Session %s: cannot be watched", self.name, exc_info=True)

    def _tell(self, op: str, args: list[Any], value: Any) -> None:
        sight = self._see(op, args, value)
        if sight is None:
            return
        if sight["op"] == "reset":
            self._episode += 1
            self._step, self._total = 0, 0.0
        else:
            self._step += 1
            with contextlib.suppress(TypeError, ValueError):  # no reward, or several
                self._total += float(sight["reward"])
        now_s = time.monotonic()
        if now_s < self._due_s or self._connection.congested:
            self._skipped += 1
            return
        self._due_s = now_s + _INTERVAL_S
        frame = None
        if self._draw is not None:
            frame = self._draw()
        told = {
            **sight,
            "episode": self._episode,
            "step": self._step,
            "return": self._total,
            "skipped": self._skipped,
            "frame": frame,
        }
        try:
            packet = encode_packet(Seen(told).to_wire())
        except errors.EncodeError:  # which is not for us to say
            packet = encode_packet(Seen({**told, "info": {}, "frame": None}).to_wire())
        self._connection.send_packet(packet)
        self._skipped = 0

    def end(self) -> None:
        """Hang up: the session has ended."""
        self._connection.finish()

    # -- for the connection -------------------------------------------------------------------

    def submit(self, request: Any, connection: Outlet) -> None:
        """Refuse it.

        Raises:
            ProtocolError: Always.
        """
        raise errors.ProtocolError("Who watches a session makes no requests.", field="op")

    def go_on(self) -> None:
        """Nothing waits."""

    def cancel(self, id_: int) -> None:
        """Nothing was asked for."""

    def acknowledge(self, ack: int) -> None:
        """Nothing is kept."""

    def detach(self, connection: Outlet) -> None:
        """Watch no more."""
        self._session.unwatch(self)
