"""Following a session that somebody else runs."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from openenv_gym import errors
from openenv_gym.client.watch import Watch
from openenv_gym.web.outlet import Outlet
from openenv_gym.web.views import panels_of, reward_of, short


__all__ = ["Following"]

_LOOK_S = 0.25

_log = logging.getLogger(__name__)


class Following:
    """A thread that shows what a session does, until it is stopped or the session ends.

    Args:
        watch: The session.
        session: Its public name.
        index: Which of several sub-environments.
        outlet: Where it is shown.
        note: Takes what was observed last, for the raw JSON.
    """

    def __init__(
        self,
        watch: Watch,
        session: str,
        index: int,
        outlet: Outlet,
        note: Callable[[Any], None],
    ) -> None:
        self._watch = watch
        self._outlet = outlet
        self._note = note
        self._over = threading.Event()
        count = watch.watched.get("num_envs")
        name = str(watch.watched.get("environment") or session)
        self._shown = name if count is None else f"{name} {index} of {count}"
        self._outlet.say(kind="watching", session=session, shown=self._shown)
        self._thread = threading.Thread(target=self._follow, name="openenv-watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Show no more of it."""
        self._over.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()
        self._outlet.say(kind="watching", session=None, shown="")

    def _follow(self) -> None:
        try:
            while not self._over.is_set():
                seen = self._watch.next(_LOOK_S)
                if seen is not None:
                    self._show(seen)
        except errors.OpenEnvGymError as error:
            self._outlet.say(kind="trouble", text=error.message)
        except Exception as error:  # nobody else hears of what ends this thread
            _log.exception("Session %s: cannot be shown", self._shown)
            self._outlet.say(kind="trouble", text=f"{type(error).__name__}: {error}")
        finally:
            self._watch.close()

    def _show(self, seen: dict[str, Any]) -> None:
        row = {
            "episode": seen["episode"],
            "step": seen["step"],
            "action": "reset" if seen["op"] == "reset" else short(seen["action"]),
            "reward": reward_of(seen["reward"]),
            "done": seen["done"],
            "truncated": seen["truncated"],
            "skipped": seen["skipped"],
        }
        self._note({key: seen[key] for key in ("observation", "reward", "done", "info")})
        view = {
            **row,
            "return": seen["return"],
            "panels": panels_of(seen["observation"], seen["frame"]),
            "info": short(seen["info"], 400) if seen["info"] else "",
            "took_ms": None,
            "watched": self._shown,
        }
        self._outlet.show(view, row)
