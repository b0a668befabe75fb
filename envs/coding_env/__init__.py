"""Runs Python that an agent writes. Importing this package brings nothing until it is asked for.

The keeper of interpreters imports it, too, and what it has loaded the agent's code would find.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any


if TYPE_CHECKING:
    from coding_env.client import CodingEnv
    from coding_env.models import CodeAction, CodeObservation, CodeState

__all__ = ["CodeAction", "CodeObservation", "CodeState", "CodingEnv"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        module = "client" if name == "CodingEnv" else "models"
        return getattr(importlib.import_module(f"coding_env.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
