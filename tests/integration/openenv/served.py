"""Servers on the real OpenEnv package; run by the Python of a virtual environment that has it.

``python served.py PORT SLOTS [CERTIFICATE KEY]``: a corridor, as OpenEnv's own classes have it.
"""

from __future__ import annotations

import sys
from enum import Enum
from typing import Any

import uvicorn
from openenv.core.env_server import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State
from pydantic import BaseModel, Field


class Direction(str, Enum):
    """Where to go."""

    LEFT = "LEFT"
    RIGHT = "RIGHT"


class Wind(BaseModel):
    """A model inside another one."""

    strength: float = Field(ge=0.0, le=1.0)
    gusts: bool = False


class Walk(Action):
    """Go somewhere."""

    direction: Direction
    notes: dict[str, Any] = {}


class Place(Observation):
    """What is seen."""

    place: int = Field(ge=-100, le=100)
    wind: Wind
    text: str = ""
    anything: Any = None


class Corridor(Environment):
    """Walk from a place that the seed decides to place 10, in at most 20 steps."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        self.place = 0
        self.level = 0
        self.current = State(episode_id=None, step_count=0)

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, level: int = 0, **more: Any
    ) -> Place:
        """Begin an episode."""
        self.place, self.level = (seed or 0) % 5, level
        self.current = State(episode_id=episode_id, step_count=0)
        return self.seen()

    def step(self, action: Walk, timeout_s: float | None = None, **more: Any) -> Place:
        """Go."""
        if self.level == 13:
            raise RuntimeError("the lights are out")
        self.current.step_count += 1
        self.place += 1 if action.direction is Direction.RIGHT else -1
        seen = self.seen()
        seen.reward = 1.0 if self.place == 10 else -0.5
        seen.done = self.place == 10 or self.current.step_count == 20
        seen.metadata = {"truncated": True} if seen.done and self.place != 10 else {}
        if self.level == 14:
            seen.wind = Wind.model_construct(strength=float("nan"), gusts=False)
        return seen

    def seen(self) -> Place:
        """Look."""
        wind = Wind(strength=self.level / 20)
        return Place(place=self.place, wind=wind, text=f"level {self.level}", anything=[1, None])

    @property
    def state(self) -> State:
        """What there is to tell."""
        return self.current


def main() -> None:
    """Serve until somebody ends it."""
    port, slots, *tls = sys.argv[1:]
    app = create_fastapi_app(Corridor, Walk, Place, max_concurrent_envs=int(slots))
    files = {"ssl_certfile": tls[0], "ssl_keyfile": tls[1]} if tls else {}
    uvicorn.run(app, host="127.0.0.1", port=int(port), log_level="warning", **files)


if __name__ == "__main__":
    main()
