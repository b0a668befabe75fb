"""Environments made for tests."""

from __future__ import annotations

import collections
import threading
import time
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces


class CountingEnv(gymnasium.Env[Any, Any]):
    """Counts what is really executed, over all episodes, and tells it in every observation."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 30}

    def __init__(
        self,
        render_mode: str | None = None,
        payload_bytes: int = 0,
        step_s: float = 0.0,
        reset_s: float = 0.0,
    ) -> None:
        self.render_mode = render_mode
        self.action_space = spaces.Discrete(1000)
        self.observation_space = spaces.Dict(
            count=spaces.Box(0, 2**31, (3,), np.int64),
            payload=spaces.Box(0, 255, (payload_bytes,), np.uint8),
        )
        self.total = 0
        self.resets = 0
        self.last = 0
        self.step_s = step_s
        self.reset_s = reset_s
        self._payload = np.zeros(payload_bytes, np.uint8)  # reused on purpose

    def _observe(self) -> dict[str, Any]:
        self._payload[:] = self.total % 251
        return {
            "count": np.array([self.total, self.resets, self.last], np.int64),
            "payload": self._payload,
        }

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        time.sleep(self.reset_s)
        self.resets += 1
        return self._observe(), {}

    def step(self, action: Any) -> Any:
        time.sleep(self.step_s)
        self.total += 1
        self.last = int(action)
        return self._observe(), float(self.total), False, False, {}

    def render(self) -> Any:
        return np.full((4, 4, 3), self.total % 256, np.uint8)


class BlockingEnv(CountingEnv):
    """A step waits until the test lets it go."""

    gate = threading.Event()
    entered = threading.Event()

    def step(self, action: Any) -> Any:
        type(self).entered.set()
        if not type(self).gate.wait(600):
            raise TimeoutError("the test never opened the gate")
        return super().step(action)


class FailingEnv(CountingEnv):
    """Raises what the action asks for."""

    def step(self, action: Any) -> Any:
        if action == 1:
            raise ValueError("one is not for me")
        if action == 2:
            raise KeyError("two")
        if action == 3:
            raise UnheardOfError("three")
        if action == 4:
            return *super().step(action)[:4], {"what": [object()]}
        return super().step(action)


class UnheardOfError(Exception):
    """A class that no client knows."""


class Thing:
    """An object that no codec carries."""

    number = 3

    def double(self, value: int) -> int:
        return 2 * value


class Pair(NamedTuple):
    """A tuple with names."""

    a: int
    b: int


class ThingsEnv(gymnasium.Env[Any, Any]):
    """Has attributes of all kinds; draws once for each step, action 1 then raises."""

    metadata = {"render_modes": [], "thing": Thing()}
    action_space = spaces.Discrete(10)
    observation_space = spaces.Discrete(2)

    def __init__(self) -> None:
        self.count = 0
        self.ordered = collections.OrderedDict(a=1)
        self.default = collections.defaultdict(list, a=[1])
        self.pair = Pair(1, 2)
        self.dollar = {"$ref": "method", "type": "x"}
        self.thing = Thing()

    def read_flag(self) -> Any:
        return getattr(self, "flag", None)

    def get_thing(self) -> Thing:
        return self.thing

    def get_dollar(self) -> Any:
        return self.dollar

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        return 0, {}

    def step(self, action: Any) -> Any:
        drawn = self.np_random.random()
        self.count += 1
        if action == 1:
            raise ValueError("after a draw")
        return 0, drawn, False, False, {}
