"""Environments for agents that are language models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from pydantic import Field

from openenv_gym import Action, CallToolAction, CallToolObservation, Environment, Observation
from openenv_gym.rubrics import Rubric, WeightedSum
from openenv_gym.server import MCPEnvironment, ToolResultText, tool


class Found(Rubric):
    def forward(self, action: Any, observation: Any) -> float:
        return float(observation.done and not observation.truncated)


class Polite(Rubric):
    def forward(self, action: Any, observation: Any) -> float:
        arguments = getattr(action, "arguments", {})
        return -1.0 if arguments.get("tone") == "rude" else 0.0


class Vault(MCPEnvironment):
    """A vault whose code is a digit that the seed decides; it ends with the right guess."""

    def __init__(self, *, during_guess: Callable[[], object] = lambda: None) -> None:
        self.rubric = WeightedSum(
            {"found": Found(), "polite": Polite()}, {"found": 0.5, "polite": 0.5}
        )
        self.during_guess = during_guess
        self.code = -1

    def reset(self, *, seed: int | None = None, options: Any = None) -> ToolResultText:
        self.begin_episode(seed)
        self.code = int(self.np_random.integers(0, 10))
        hint = (options or {}).get("hint", "")
        return ToolResultText(text=f"The vault hums {self.code % 2}.{hint}")

    @staticmethod
    def code_of(seed: int) -> int:
        """Return the code that a seed decides."""
        vault = Vault()
        vault.reset(seed=seed)
        return vault.code

    @tool
    def guess(self, digit: int, tone: Literal["kind", "rude"] = "kind") -> str:
        """Guess the code.

        Args:
            digit: The digit.
            tone: How it is said.
        """
        self.during_guess()
        if digit > 9:
            raise ValueError(f"{digit} is no digit")
        self.open = digit == self.code
        return "open" if self.open else "shut"

    @tool
    def look(self) -> dict[str, Any]:
        """Look at the vault."""
        return {"colour": "grey", "dents": [1, 2]}

    def judge(self, action: CallToolAction, observation: CallToolObservation) -> None:
        if action.tool_name == "guess" and observation.error is None:
            observation.done = self.open


class Step(Action):
    """A step along a line."""

    by: int = Field(ge=-3, le=3, description="How far")


class At(Observation):
    prompt: str = Field(default="", max_length=99)
    at: int = Field(default=0, ge=-99, le=99)
    note: str = Field(default="", max_length=99)


class Line(Environment):
    """A line; the third step ends it."""

    action_model = Step
    observation_model = At

    def reset(self, *, seed: int | None = None, options: Any = None) -> At:
        self.begin_episode(seed)
        self.at = int(self.np_random.integers(-9, 10))
        return At(prompt="Walk to 0.", at=self.at)

    def step(self, action: Step) -> At:
        if action.by == -3:
            raise RuntimeError("the line broke")
        self.at += action.by
        over = self.count_step() == 3
        return At(
            prompt="Walk to 0.",
            at=self.at,
            note="here" if self.at == 0 else "",
            reward=-1.0,
            done=over,
        )
