"""An environment with tools of every sort."""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, Field

from openenv_gym.models import Action, Array, Observation
from openenv_gym.server import MCPEnvironment, tool


class Place(BaseModel):
    x: int
    y: float = 1.0


class Walk(Action):
    steps: int = Field(ge=0, lt=10)


class Seen(Observation):
    at: int = Field(ge=0, lt=100)


class Room(MCPEnvironment[Walk, Seen, Any]):
    action_model = Walk
    observation_model = Seen

    def __init__(self) -> None:
        self.at = -1
        self.threads: list[str] = []
        self.ended = threading.Event()
        self.hurry = threading.Event()

    def reset(self, *, seed=None, options=None) -> Seen:
        self.begin_episode(seed)
        self.at = 0
        return Seen(at=0)

    def act(self, action: Walk) -> Seen:
        self.count_step()
        self.at += action.steps
        return Seen(at=self.at, reward=1.0)

    def judge(self, action, observation) -> None:
        if action.tool_name == "move" and observation.error is None:
            observation.reward = float(observation.result)
            observation.done = observation.result >= 50

    @tool
    def move(self, steps: int, direction: Literal["on", "back"] = "on") -> int:
        """Walk.

        Then stop.

        Args:
            steps: How many steps,
                counted from one.
            direction: Where to.

        Returns:
            Where that leads.
        """
        self.at += steps if direction == "on" else -steps
        return self.at

    @tool(name="where.am-I", description="Where this is.")
    def where(self) -> Place:
        return Place(x=self.at)

    @tool
    def go_to(self, place: Place, then: list[Place] | None = None) -> dict[str, Any]:
        self.at = (then or [place])[-1].x
        return {"x": self.at}

    @tool
    def mean(self, values: Annotated[np.ndarray, Array((2,), "float32")]) -> float:
        return float(values.mean())

    @tool
    def picture(self) -> np.ndarray:
        return np.full((2, 3, 3), 7, np.uint8)

    @tool
    async def wait(self, wait_s: float) -> str:
        try:
            await asyncio.sleep(wait_s)
        except asyncio.CancelledError:
            self.ended.set()
            raise
        return f"waited in {threading.current_thread().name}"

    @tool(timeout_s=0.1)
    def dawdle(self, wait_s: float) -> str:
        self.hurry.wait(wait_s)
        self.ended.set()
        return "done"

    @tool
    def fail(self, how: Literal["raise", "exit", "return", "look"] = "raise") -> Any:
        if how == "raise":
            raise ValueError("out of luck")
        if how == "exit":
            sys.exit(3)
        if how == "look":  # like what stands on the wire
            return {"content": [], "structured_content": 1, "meta": 2, "data": 3, "is_error": True}
        return object()

    @tool(mode="production", name="secret")
    def for_agents(self) -> str:
        return "production"

    @tool(mode="simulation", name="secret")
    def for_trainers(self) -> str:
        return "simulation"

    @tool
    def nothing(self) -> None:
        pass

    def close(self) -> None:
        self.hurry.set()
        super().close()


class Holding(Room):
    """A room with a tool that is done when a test says so."""

    gate = threading.Event()

    @tool(timeout_s=600)
    def hold(self) -> str:
        assert self.gate.wait(600)
        return "done"
