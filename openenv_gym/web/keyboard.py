"""Playing by keyboard: which keys mean which action, and the clock that steps."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Mapping
from typing import Any

from openenv_gym import errors
from openenv_gym.web.parts import Group, Leaf
from openenv_gym.web.tabs import Tab


__all__ = ["Player", "keys_of"]

_DIRECTIONS = {
    "up": ("UP", "NORTH"),
    "down": ("DOWN", "SOUTH"),
    "left": ("LEFT", "WEST"),
    "right": ("RIGHT", "EAST"),
}
_FIRE = ("FIRE", "SPACE")
_NOTHING = ("NOOP", "NOTHING", "WAIT", "STAY")
_MAX_RATE = 60.0
_EXACT = 2**53

_log = logging.getLogger(__name__)


def keys_of(form: Group) -> dict[str, Any] | None:
    """Return how an action with one choice is made by keys; None where it has more.

    Returns:
        ``field``: the key of the field; ``names``: for each action the arrows and ``fire`` that
        make it, as names joined by ``+``; ``digits``: the values that the keys 0 to 9 stand for;
        ``nothing``: the action without keys, None where there is none.
    """
    if len(form.parts) != 1 or not isinstance(form.parts[0], Leaf):
        return None
    leaf = form.parts[0]
    if leaf.kind != "choice" or not all(map(_is_plain, leaf.values)):
        return None
    named: dict[str, Any] = {}
    nothing = None
    for label, value in leaf.choices:
        word = label.rpartition(": ")[2].upper().replace(" ", "")
        if word in _NOTHING:
            nothing = value
            continue
        held, rest = [], word
        for key, words in _DIRECTIONS.items():
            found = next((each for each in words if each in rest), None)
            if found:
                held.append(key)
                rest = rest.replace(found, "")
        for each in _FIRE:
            if each in rest:
                held.append("fire")
                rest = rest.replace(each, "")
        if held and not rest:
            named["+".join(sorted(held))] = value
    return {
        "field": form.names[0] if form.names else "",
        "names": named,
        "digits": [value for _, value in leaf.choices[:10]],
        "nothing": nothing,
    }


def _is_plain(value: Any) -> bool:
    """Tell whether a value comes back from a browser as it was, whose numbers are floats."""
    if isinstance(value, float):
        return math.isfinite(value)
    return not isinstance(value, int) or abs(value) <= _EXACT


class Player:
    """Steps a tab's session at a steady rate, with the action whose keys are held.

    Args:
        tab: The tab.
        keys: What `keys_of` returned.
        rate: Steps a second.
    """

    def __init__(self, tab: Tab, keys: Mapping[str, Any], rate: float) -> None:
        self._tab = tab
        self._field = str(keys["field"])
        self._nothing = keys["nothing"]
        self._action = self._nothing
        self._interval_s = 1 / min(max(rate, 1.0), _MAX_RATE)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._play, name="openenv-player", daemon=True)
        self._thread.start()

    def hold(self, action: Any) -> None:
        """Take this action from now on; None: the one without keys."""
        self._action = self._nothing if action is None else action

    def stop(self) -> None:
        """Step no more."""
        self._over.set()
        self._thread.join()

    def _play(self) -> None:
        due_s = time.monotonic()
        try:
            if self._tab.over:
                self._tab.reset(None, None)
            while not self._over.is_set():
                action = self._action
                if action is not None and self._tab.step({self._field: action}, quick=True):
                    break
                due_s = max(due_s + self._interval_s, time.monotonic())
                self._over.wait(due_s - time.monotonic())
        except errors.OpenEnvGymError as error:
            self._tab.outlet.say(kind="trouble", text=str(error))
        except Exception as error:  # nobody else hears of what ends this thread
            _log.exception("Playing by keyboard has ended")
            self._tab.outlet.say(kind="trouble", text=f"{type(error).__name__}: {error}")
        self._tab.outlet.say(kind="playing", on=False)
