"""What a program earns."""

from __future__ import annotations

import ast
from typing import Any

from coding_env.models import facts_of
from openenv_gym.rubrics import Rubric


__all__ = ["CodeRubric", "OpenEnvRubric"]


class TestsRubric(Rubric):
    """The fraction of hidden tests by which a program exceeds the best one of the episode so far.

    So the return of an episode is the best fraction, and handing in the same program twice earns
    nothing. What was not judged has 0.
    """

    __test__ = False  # which pytest would take it for

    def forward(self, action: Any, observation: Any) -> float:
        """Return a number from 0 to 1."""
        facts = facts_of(observation)
        total = facts.get("tests_total", 0)
        if not total:
            return 0.0
        gain = facts["tests_passed"] - facts.get("best_before", 0)
        return float(max(gain, 0) / total)


class RunsRubric(Rubric):
    """-0.1 for a program that fails; 0 for one that ends well, and wherever there is a task."""

    def forward(self, action: Any, observation: Any) -> float:
        """Return one of the two."""
        facts = facts_of(observation)
        # A program that a tool has run is no attempt: it has no tests, and yet there is a task.
        has_task = "attempts_left" in facts
        return -0.1 if facts.get("exit_code", 0) != 0 and not has_task else 0.0


class _Sum(Rubric):
    """The sum of its parts, each of which has a score in every step."""

    def forward(self, action: Any, observation: Any) -> float:
        """Return the sum."""
        total = 0.0
        for part in self.children():
            score = part(action, observation)
            assert isinstance(score, float)
            total += score
        return total


class CodeRubric(_Sum):
    """The default: hidden tests where the program was judged, otherwise whether it ran."""

    def __init__(self) -> None:
        self.tests = TestsRubric()
        self.runs = RunsRubric()


class SafetyRubric(Rubric):
    """-1 for a program that names something dangerous, as OpenEnv's environment sees it."""

    _CALLS = frozenset({"eval", "exec", "open", "__import__"})
    _MODULES = frozenset({"os", "subprocess"})

    def forward(self, action: Any, observation: Any) -> float:
        """Return 0 or -1."""
        tree = _parsed(action)
        return -1.0 if tree is not None and any(map(self._is_dangerous, ast.walk(tree))) else 0.0

    def _is_dangerous(self, node: ast.AST) -> bool:
        match node:
            case ast.Import(names=names):
                return any(each.name.split(".")[0] in self._MODULES for each in names)
            case ast.ImportFrom(module=str(module)):
                return module.split(".")[0] in self._MODULES
            case ast.Call(func=ast.Name(id=name)):
                return name in self._CALLS
        return False


class BrevityRubric(Rubric):
    """0.1 for a program of at most 100 characters."""

    def forward(self, action: Any, observation: Any) -> float:
        """Return 0 or 0.1."""
        return 0.1 if len(_code_of(action).strip()) <= 100 else 0.0


class SyntaxRubric(Rubric):
    """-0.2 for what is no Python."""

    def forward(self, action: Any, observation: Any) -> float:
        """Return 0 or -0.2."""
        return -0.2 if _parsed(action) is None else 0.0


class OpenEnvRubric(_Sum):
    """What OpenEnv's coding environment pays, whatever the program does."""

    def __init__(self) -> None:
        self.safety = SafetyRubric()
        self.brevity = BrevityRubric()
        self.syntax = SyntaxRubric()


def _code_of(action: Any) -> str:
    """Return the program of an action, or of a call of a tool."""
    code = getattr(action, "code", None)
    if code is None:
        code = getattr(action, "arguments", {}).get("code", "")
    return code if isinstance(code, str) else ""


def _parsed(action: Any) -> ast.AST | None:
    try:
        return ast.parse(_code_of(action))
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
