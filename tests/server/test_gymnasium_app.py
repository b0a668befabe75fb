from __future__ import annotations

import threading
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import openenv_gym  # noqa: F401 (registers the ids)


class Painter(gymnasium.Env[np.int64, np.int64]):
    """Notes which threads call it, as an OpenGL context would mind."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 30}
    action_space = spaces.Discrete(2)
    observation_space = spaces.Discrete(2)
    threads: set[int] = set()

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.threads.add(threading.get_ident())

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.threads.add(threading.get_ident())
        return np.int64(0), {}

    def step(self, action: np.int64) -> Any:
        self.threads.add(threading.get_ident())
        return np.int64(action), 0.0, False, False, {}

    def render(self) -> Any:
        self.threads.add(threading.get_ident())
        return np.zeros((4, 4, 3), np.uint8)


@pytest.fixture
def painter(monkeypatch: pytest.MonkeyPatch) -> str:
    spec = gymnasium.envs.registration.EnvSpec("Painter-v0", entry_point=Painter)
    monkeypatch.setitem(gymnasium.registry, "Painter-v0", spec)
    Painter.threads.clear()
    return "Painter-v0"


def test_an_environment_that_draws_is_called_from_one_thread_alone(painter: str) -> None:
    """OpenGL contexts belong to a thread."""
    env = gymnasium.make(
        "openenv/Gymnasium-v0", env_id=painter, render_mode="rgb_array", provider="thread"
    )
    env.reset()
    callers = [threading.Thread(target=env.render) for _ in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    for _ in range(50):
        env.step(env.action_space.sample())
        env.render()
    env.close()
    assert len(Painter.threads) == 1
