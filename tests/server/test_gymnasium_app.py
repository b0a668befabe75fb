from __future__ import annotations

import sys
import threading
import time
import types
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import openenv_gym


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


class Racer(Painter):
    """Draws in its steps, with what does not draw in two threads at once."""

    busy = threading.Lock()

    def _render(self) -> Any:
        if not self.busy.acquire(blocking=False):
            raise RuntimeError("somebody else draws")
        self.threads.add(threading.get_ident())
        time.sleep(0.001)  # others may run meanwhile
        self.busy.release()

    def step(self, action: np.int64) -> Any:
        self._render()
        return super().step(action)

    def render(self) -> Any:
        return self._render()


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


@pytest.fixture
def racer(monkeypatch: pytest.MonkeyPatch) -> str:
    module = types.ModuleType("gymnasium.envs.racing")
    module.Racer = Racer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    spec = gymnasium.envs.registration.EnvSpec("Racer-v0", entry_point=f"{module.__name__}:Racer")
    monkeypatch.setitem(gymnasium.registry, "Racer-v0", spec)
    Racer.threads.clear()
    return "Racer-v0"


def test_what_draws_with_pygame_draws_one_at_a_time(racer: str) -> None:
    envs: Any = gymnasium.make_vec(
        "openenv/Gymnasium-v0", num_envs=8, num_servers=1, env_id=racer, provider="thread"
    )
    envs.reset(seed=1)
    for _ in range(5):
        envs.send(np.zeros(8, int))
        assert len(envs.recv(min_envs=8).env_ids) == 8
    envs.close()
    assert len(Racer.threads) > 1


def test_pictures_of_environments_that_share_a_server_do_not_mix() -> None:
    pytest.importorskip("pygame")
    differ: list[int] = []

    def draw() -> None:
        env = gymnasium.make("openenv/CartPole-v1", render_mode="rgb_array", server=server)
        env.reset(seed=1)
        first = env.render()
        for _ in range(100):
            if not np.array_equal(env.render(), first):
                differ.append(1)
        env.close()

    with openenv_gym.start_server("openenv/CartPole-v1", provider="process") as server:
        threads = [threading.Thread(target=draw) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not differ
