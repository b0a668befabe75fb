"""Sub-environments made for tests, and vector environments of them over several servers."""

from __future__ import annotations

import dataclasses
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from openenv_gym import errors
from openenv_gym.client import Address, Connection, Loss, not_lost
from openenv_gym.providers.thread import ThreadServer
from openenv_gym.server import Server, create_app
from openenv_gym.vector import Member, Opened, RemoteVectorEnv, slices


class WorldEnv(gymnasium.Env[Any, Any]):
    """Has every kind of observation and info; draws, ends episodes, fails and sleeps as it is told.

    The action's ``what`` 1 raises a ValueError; ``wait_s`` is slept.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 7}

    def __init__(
        self, render_mode: str | None = None, length: int = 5, step_s: float = 0.0
    ) -> None:
        self.render_mode = render_mode
        self.action_space = spaces.Dict(
            what=spaces.Discrete(3), force=spaces.Box(-1, 1, (2,), np.float32)
        )
        self.observation_space = spaces.Dict(
            box=spaces.Box(-10, 1e9, (3,), np.float32),
            kind=spaces.Discrete(100),
            pair=spaces.Tuple((spaces.MultiBinary(2), spaces.Text(12))),
        )
        self.length = length
        self.step_s = step_s
        self.gravity = 9.8
        self.count = 0

    def _observe(self) -> dict[str, Any]:
        drawn = self.np_random.random()
        return {
            "box": np.array([self.count, drawn, self.gravity], np.float32),
            "kind": np.int64(self.count % 100),
            "pair": (np.array([self.count % 2, 1], np.int8), f"s{self.count}"),
        }

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        if options and options.get("fail"):
            raise KeyError("no such option")
        self.count = 0
        info: dict[str, Any] = {"start": float(self.np_random.random())}
        if options:
            info["options"] = len(options)
        return self._observe(), info

    def step(self, action: Any) -> Any:
        if action["what"] == 1:
            raise ValueError(f"one is not for me at {self.count}")
        time.sleep(self.step_s)
        self.count += 1
        luck = int(self.np_random.integers(10))
        info: dict[str, Any] = {"count": self.count, "nested": {"luck": luck}}
        if luck > 5:
            info["nested"]["vector"] = np.full(2, luck, np.float32)
            info["word"] = f"w{luck}"
        ended = self.count >= self.length or luck == 9
        reward = float(action["force"].sum()) + self.count
        return self._observe(), reward, ended and luck % 2 == 0, ended and luck % 2 == 1, info

    def render(self) -> Any:
        return np.full((4, 4, 3), self.count, np.uint8)

    def plus(self, number: int, *, twice: bool = False) -> int:
        return self.count + number * (1 + twice)

    def fail(self) -> None:
        raise RuntimeError("failed as asked")


class CountEnv(gymnasium.Env[Any, Any]):
    """Counts steps; the action says how many milliseconds one takes; -1 raises."""

    metadata = {"render_modes": []}

    def __init__(self, length: int = 10**9) -> None:
        self.action_space = spaces.Discrete(1002, start=-1)
        self.observation_space = spaces.Box(0, 1e9, (4,), np.float64)
        self.count = 0
        self.length = length

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.count = 0
        return self._observe(), {}

    def _observe(self) -> Any:
        return np.array([self.count, self.np_random.random(), 0, 0])

    def step(self, action: Any) -> Any:
        if action < 0:
            raise ValueError("below zero")
        time.sleep(int(action) / 1000)
        self.count += 1
        return self._observe(), float(self.count), self.count % self.length == 0, False, {}


class GateEnv(CountEnv):
    """A step with an action above zero waits until the test lets it go: see `gate`."""

    gate = threading.Event()

    def step(self, action: Any) -> Any:
        assert action <= 0 or self.gate.wait(60)
        return super().step(min(action, 0))


class Mortal:
    """The address of a server that may be dead."""

    def __init__(self, server: ThreadServer) -> None:
        self.uri = server.uri
        self.dead = False
        self._server = server

    def dial(self, timeout_s: float, why_lost: Loss = not_lost) -> socket.socket:
        if self.dead:
            raise errors.ServerUnreachableError("It is dead.")
        return self._server.dial(timeout_s, why_lost)

    def __str__(self) -> str:
        return "mortal"


class Fleet:
    """A vector environment over servers in this process, which tests may break."""

    def __init__(
        self,
        factory: Callable[..., gymnasium.Env[Any, Any]],
        num_envs: int,
        num_servers: int = 1,
        *,
        options: dict[str, Any] | None = None,
        address: Callable[[ThreadServer], Address] | None = None,
        timeout_s: float = 30.0,
        releases_gil: bool = False,
        **kwargs: Any,
    ) -> None:
        self.servers: list[ThreadServer] = []
        self.addresses: list[Mortal] = []
        mode = kwargs.get("autoreset_mode", "NextStep")
        observation_mode = kwargs.get("observation_mode", "same")

        def open_one(first: int, size: int) -> Opened:
            app = dataclasses.replace(create_app(factory), releases_gil=lambda _: releases_gil)
            server = ThreadServer(Server(app))
            self.servers.append(server)
            self.addresses.append(Mortal(server))
            connection = Connection(
                self.addresses[-1] if address is None else address(server),
                options or {},
                vector={
                    "num_envs": size,
                    "first": first,
                    "autoreset_mode": getattr(mode, "value", mode),
                    "observation_mode": observation_mode,
                },
                timeout_s=timeout_s,
                why_lost=server.why_lost,
            )
            return Opened(connection, server.stop)

        members = []
        for first, size in slices(num_envs, num_servers):
            reopen = lambda first=first, size=size: open_one(first, size)  # noqa: E731
            members.append(Member(reopen(), first, reopen))
        self.env = RemoteVectorEnv.from_members(members, **kwargs)

    def kill(self, index: int, grace_s: float = 5.0) -> None:
        """Stop a server without a word.

        Args:
            index: Which one.
            grace_s: How long to wait for steps that run: none where they wait for the test.
        """
        self.addresses[index].dead = True
        self.servers[index].stop(grace_s)


def same(ours: Any, theirs: Any) -> None:
    """Compare results to the bit, with their types."""
    assert type(ours) is type(theirs), (ours, theirs)
    if isinstance(ours, dict):
        assert list(ours) == list(theirs), (list(ours), list(theirs))
        for key in ours:
            same(ours[key], theirs[key])
    elif isinstance(ours, (tuple, list)):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            same(one, other)
    elif isinstance(ours, np.ndarray):
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape, (ours, theirs)
        if ours.dtype == object:
            same(tuple(ours), tuple(theirs))
        else:
            assert ours.tobytes() == theirs.tobytes(), (ours, theirs)
    else:
        assert ours == theirs, (ours, theirs)


def still(env: RemoteVectorEnv, what: Sequence[int] | int = 0) -> dict[str, Any]:
    """Return actions for `WorldEnv` that move nothing."""
    return {
        "what": np.broadcast_to(np.asarray(what, np.int64), (env.num_envs,)).copy(),
        "force": np.zeros((env.num_envs, 2), np.float32),
    }
