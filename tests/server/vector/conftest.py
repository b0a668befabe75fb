"""Environments and helpers for tests of vector sessions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from openenv_gym.server import Application, create_app
from openenv_gym.server.vector import VectorHost, VectorOptions
from openenv_gym.vector.infos import with_masks
from tests.server.conftest import RawClient, Site


MODES = list(AutoresetMode)


class Drive:
    """Runs operations of a host, and returns what they return."""

    def __init__(self, host: VectorHost) -> None:
        self.host = host

    def __call__(self, op: str, *args: Any) -> Any:
        value = self.host.execute(op, list(args))[0]
        if op in ("reset", "step"):  # as the client does
            value[-1] = with_masks(value[-1], self.host.describe()["vector"]["num_envs"])
        return value

    def close(self) -> None:
        self.host.close()


def drive(
    app: Application | Any, num_envs: int, mode: Any = AutoresetMode.NEXT_STEP, **more: Any
) -> Drive:
    """Open a host for an application or factory."""
    options = more.pop("options", {})
    made = app if isinstance(app, Application) else create_app(app)
    return Drive(made.open_vector(options, VectorOptions(num_envs, autoreset_mode=mode, **more)))


class Wire:
    """The same over a connection."""

    def __init__(self, client: RawClient, **vector: Any) -> None:
        options = vector.pop("options", {})
        wait_s = vector.pop("wait_s", 0.0)
        self.client = client
        self._id = 0
        opening = {"options": options, "wait_s": wait_s, "vector": vector}
        client.send(0, {"version": [1, 0], "open": opening})
        self.welcome = client.receive()

    def __call__(self, op: str, *args: Any) -> Any:
        self._id += 1
        self.client.send(1, self._id, self._id - 1, op, list(args))
        reply = self.client.receive()
        assert reply[1] == self._id
        self.reply = reply
        return reply[2]


class CountEnv(gymnasium.Env[Any, Any]):
    """An episode lasts as many steps as `length`; observation and info say which step it is."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}

    def __init__(
        self, length: int = 3, reward_shape: tuple[int, ...] = (), render_mode: Any = None
    ) -> None:
        self.observation_space = spaces.Box(-1, 1000, (2,), np.int64)
        self.action_space = spaces.Discrete(10)
        self.render_mode = render_mode
        self.length = length
        self.reward_shape = reward_shape
        self.count = 0
        self.episode = 0
        self.fails: str | None = None
        self._reused = np.zeros(2, np.int64)
        self._told: list[int] = []

    def _observe(self) -> Any:
        self._reused[:] = self.episode, self.count
        return self._reused

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        if self.fails == "reset":
            raise ValueError("no reset today")
        self.episode += 1
        self.count = 0
        self._told.clear()
        return self._observe(), {"episode": self.episode, "options": sorted(options or {})}

    def step(self, action: Any) -> Any:
        if self.fails == "step":
            raise ValueError("not this one")
        if self.fails == "exit":
            raise SystemExit(3)
        self.count += 1
        self._told.append(self.count)
        reward: Any = float(action)
        if self.reward_shape:
            reward = np.full(self.reward_shape, action, np.float32)
        return self._observe(), reward, self.count >= self.length, False, {"told": self._told}

    def render(self) -> Any:
        return np.full((2, 2, 3), self.count, np.uint8)

    def add(self, a: int, b: int = 0) -> int:
        return self.count + a + b

    def get_space(self) -> Any:
        return self.action_space


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.close()
