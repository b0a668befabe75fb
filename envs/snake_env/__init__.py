"""Snake: eat and grow. Importing it brings the models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from snake_env.models import SnakeAction, SnakeObservation


if TYPE_CHECKING:
    from snake_env.client import SnakeEnv

__all__ = ["SnakeAction", "SnakeEnv", "SnakeObservation"]


def __getattr__(name: str) -> Any:
    if name == "SnakeEnv":  # which a server does not need
        from snake_env.client import SnakeEnv

        return SnakeEnv
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
