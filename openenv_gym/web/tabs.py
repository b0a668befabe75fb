"""Tabs of browsers: each has a session of its own, or watches somebody else's."""

from __future__ import annotations

import math
import secrets
import threading
import time
from collections.abc import Mapping
from typing import Any

from openenv_gym import errors
from openenv_gym.client import Connection
from openenv_gym.web.outlet import Outlet
from openenv_gym.web.service import Service
from openenv_gym.web.views import has_picture, panels_of, plain, reward_of, short
from openenv_gym.web.watching import Following


__all__ = ["Tab", "Tabs"]

_DRAWN = ("rgb_array", "ansi")
_UNUSED_S = 60.0  # a tab whose browser is gone for so long is closed
_LOOK_S = 2.0
_MAX_CLOSING = 16  # tabs that are closed at once; others wait for the next look
_CLOSE_S = 5.0


class Tab:
    """One tab. Calls may come from any thread; they wait for each other, but for `close`.

    Who makes one holds on to it, as each connection of its browser does; see `leave`.

    Args:
        service: The server.
        peer: Where the browser is.

    Attributes:
        name: Its secret name, which its browser alone knows.
        outlet: What the browser is told.
        described: What the environment says about its actions: ``actions``, ``tools``, ``legal``.
        left_s: When the last one that held on to it has left; inf while somebody does.
    """

    def __init__(self, service: Service, peer: str) -> None:
        self.name = secrets.token_urlsafe(18)
        self.peer = peer
        self.outlet = Outlet()
        self.described: dict[str, Any] = {"actions": [], "tools": [], "legal": None}
        self.left_s = math.inf
        self._service = service
        self._lock = threading.RLock()
        # Held for a moment only, whatever the environment does: guards what there is to be ended.
        self._parts = threading.Lock()
        self._holders = 1
        self._session: Connection | None = None
        self._draws = False
        self._episode = self._step = 0
        self._total = 0.0
        self._over = True
        self._raw: Any = None
        self._following: Following | None = None
        self._closed = False

    def arrive(self) -> None:
        """Hold on to the tab: a browser has connected."""
        with self._parts:
            self._holders += 1
            self.left_s = math.inf

    def leave(self) -> None:
        """Hold on to it no more; a connection may end long after the browser has a new one."""
        with self._parts:
            self._holders -= 1
            if not self._holders:
                self.left_s = time.monotonic()

    # -- the session --------------------------------------------------------------------------

    def open(self, options: dict[str, Any]) -> None:
        """Open a session, in place of the one that there is.

        It is asked to draw where it can, and where that is no window.

        Raises:
            SessionClosedError: The tab was closed.
            OpenEnvGymError: The session cannot be opened.
        """
        with self._lock:
            self._end_session()
            if self._closed:
                raise _closed_tab()
            session = self._service.open(options, self.peer)
            modes = (session.environment.get("metadata") or {}).get("render_modes") or ()
            wanted = next((mode for mode in _DRAWN if mode in modes), None)
            if wanted is not None and session.environment.get("render_mode") is None:
                session.close()
                try:
                    session = self._service.open({**options, "render_mode": wanted}, self.peer)
                except errors.OpenEnvGymError:  # it draws only for those who know how
                    session = self._service.open(options, self.peer)
            if not self._keep(session):
                session.close()
                raise _closed_tab()
            self._draws = session.environment.get("render_mode") in _DRAWN
            self._over = True  # until one has begun
            self._describe()

    def _keep(self, session: Connection) -> bool:
        """Take a session as the tab's own; tell whether the tab has not been closed meanwhile."""
        with self._parts:
            if not self._closed:
                self._session = session
            return not self._closed

    @property
    def session_name(self) -> str:
        """Public name of its session; empty without one."""
        return "" if self._session is None else self._session.session_name

    @property
    def frames_per_second(self) -> float:
        """How fast the environment is meant to be seen."""
        metadata = {} if self._session is None else self._session.environment.get("metadata") or {}
        rate = metadata.get("render_fps")
        return float(rate) if isinstance(rate, (int, float)) and 1 <= rate <= 60 else 15.0

    def reset(self, seed: int | None, options: dict[str, Any] | None) -> None:
        """Begin an episode.

        Raises:
            OpenEnvGymError: What the environment, or the server, says.
        """
        arguments: dict[str, Any] = {} if seed is None else {"seed": seed}
        if options is not None:
            arguments["options"] = options
        with self._lock:
            outcome = self._call("reset_typed", arguments)
            self._episode += 1
            self._step, self._total, self._over = 0, 0.0, False
            # A picture that is observed is not drawn once more.
            self._draws = self._draws and not has_picture(outcome[0])
            self._show("reset", None, outcome)

    def step(self, action: Mapping[str, Any], *, quick: bool = False) -> bool:
        """Take a step; return whether the episode is over.

        Args:
            action: The action, by field.
            quick: Do not ask what is legal after it.

        Raises:
            OpenEnvGymError: What the environment, or the server, says.
        """
        with self._lock:
            begin_s = time.perf_counter()
            outcome = self._call("step_typed", dict(action))
            self._step += 1
            self._total += reward_of(outcome[1]) or 0.0
            self._over = bool(outcome[2])
            took_ms = 1e3 * (time.perf_counter() - begin_s)
            self._show("step", action, outcome, quick=quick, took_ms=took_ms)
            return self._over

    @property
    def over(self) -> bool:
        """The episode is over, or none has begun."""
        return self._over

    def raw(self) -> None:
        """Show what was observed last, as JSON."""
        self.outlet.say(kind="raw", value=plain(self._raw))

    def _call(self, op: str, *args: Any) -> Any:
        if self._following is not None:
            self.unwatch()
        return self._ask(op, *args)

    def _ask(self, op: str, *args: Any) -> Any:
        session = self._session
        if session is None:
            raise errors.ResetNeededError(
                "There is no environment.", hint="Press 'New environment'."
            )
        try:
            return session.call(op, list(args)).value
        except errors.SessionError:
            self._end_session()
            raise

    def _show(
        self,
        op: str,
        action: Any,
        outcome: list[Any],
        *,
        quick: bool = False,
        took_ms: float | None = None,
    ) -> None:
        observation, reward, done, truncated, info = outcome
        frame = None
        if self._draws:
            frame = self._call("render")
        self._raw = {"observation": observation, "reward": reward, "done": done, "info": info}
        row = {
            "episode": self._episode,
            "step": self._step,
            "action": "reset" if op == "reset" else self._words(action),
            "reward": reward_of(reward),
            "done": bool(done),
            "truncated": bool(truncated),
        }
        if not quick:
            self._describe()
        view = {
            **row,
            "return": self._total,
            "panels": panels_of(observation, frame),
            "info": short(info, 400) if info else "",
            "took_ms": took_ms,
            "watched": None,
        }
        self.outlet.show(view, row)

    def _words(self, action: Any) -> str:
        """Return an action in a line, with what its number is called."""
        if isinstance(action, Mapping) and len(action) == 1:
            ((name, value),) = action.items()
            for kind in self.described["actions"]:
                field = (kind.get("fields") or {}).get(name) or {}
                labels, low = field.get("labels"), field.get("low")
                if not labels or type(value) is not int or type(low) is not int:
                    continue
                if 0 <= value - low < len(labels):
                    return f"{value}: {labels[value - low]}"
        return short(action)

    def describe(self) -> None:
        """Ask again what is legal now.

        Raises:
            OpenEnvGymError: What the environment, or the server, says.
        """
        with self._lock:
            if self._session is not None:
                self._describe()

    def _describe(self) -> None:
        self.described = self._ask("describe_actions")

    # -- watching -----------------------------------------------------------------------------

    def sessions(self) -> list[dict[str, Any]]:
        """Return the sessions that can be watched; not its own."""
        own = self.session_name
        return [
            each
            for each in self._service.sessions(self.peer)
            if each["watchable"] and each["session"] != own
        ]

    def watch(self, session: str, index: int) -> None:
        """Show what a session does that somebody else runs.

        Raises:
            OpenEnvGymError: It cannot be watched.
        """
        with self._lock:
            self.unwatch()
            watch = self._service.watch(session, index, self.peer)
            following = Following(watch, session, index, self.outlet, self._note)
            with self._parts:
                closed = self._closed
                self._following = None if closed else following
            if closed:
                following.stop()
                raise _closed_tab()

    def unwatch(self) -> None:
        """Watch no more."""
        with self._parts:
            following, self._following = self._following, None
        if following is not None:
            following.stop()

    def _note(self, raw: Any) -> None:
        self._raw = raw

    # -- end ----------------------------------------------------------------------------------

    def close(self) -> None:
        """End its session, for good; a call that is under way is broken off."""
        with self._parts:
            self._closed = True
        self.unwatch()
        self._end_session()

    def _end_session(self) -> None:
        with self._parts:
            session, self._session = self._session, None
        if session is not None:
            session.close()


class Tabs:
    """All tabs; those whose browser is gone are closed after a while.

    Args:
        service: The server.
    """

    def __init__(self, service: Service) -> None:
        self.service = service
        self._lock = threading.Lock()
        self._tabs: dict[str, Tab] = {}
        self._closing = threading.BoundedSemaphore(_MAX_CLOSING)
        threading.Thread(target=self._keep_house, name="openenv-tabs", daemon=True).start()

    def add(self, peer: str) -> Tab:
        """Return a new tab, which whoever asked for it holds on to."""
        tab = Tab(self.service, peer)
        with self._lock:
            self._tabs[tab.name] = tab
        return tab

    def get(self, name: str | None) -> Tab | None:
        """Return a tab by its secret name; None where there is none."""
        with self._lock:
            return self._tabs.get(name or "")

    def arrive(self, name: str | None) -> Tab | None:
        """Return a tab to whose browser a connection is there, which holds on to it."""
        with self._lock:  # so that it is not taken for left before
            tab = self._tabs.get(name or "")
            if tab is not None:
                tab.arrive()
        return tab

    def end(self, tab: Tab) -> None:
        """Close a tab whose browser says that it is gone for good."""
        with self._lock:
            self._tabs.pop(tab.name, None)
        tab.close()

    def close(self) -> None:
        """Close all tabs."""
        with self._lock:
            tabs, self._tabs = list(self._tabs.values()), {}
        end_s = time.monotonic() + _CLOSE_S
        threads = [threading.Thread(target=tab.close, daemon=True) for tab in tabs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(end_s - time.monotonic(), 0.0))

    def _keep_house(self) -> None:
        while True:
            time.sleep(_LOOK_S)
            now_s = time.monotonic()
            with self._lock:
                gone = [tab for tab in self._tabs.values() if now_s > tab.left_s + _UNUSED_S]
                gone = [tab for tab in gone if self._closing.acquire(blocking=False)]
                for tab in gone:
                    del self._tabs[tab.name]
            for tab in gone:  # each by itself: one may take its time
                threading.Thread(target=self._close_one, args=(tab,), daemon=True).start()

    def _close_one(self, tab: Tab) -> None:
        try:
            tab.close()
        finally:
            self._closing.release()


def _closed_tab() -> errors.SessionClosedError:
    return errors.SessionClosedError("This tab was closed.", hint="Load the page again.")
