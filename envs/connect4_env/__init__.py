"""Connect Four, against an opponent or between two players."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from connect4_env.models import Connect4Action, Connect4Observation, Connect4State


if TYPE_CHECKING:
    from connect4_env.client import Connect4Env

__all__ = ["Connect4Action", "Connect4Env", "Connect4Observation", "Connect4State"]


def __getattr__(name: str) -> Any:
    if name == "Connect4Env":  # which a server does not need
        from connect4_env.client import Connect4Env

        return Connect4Env
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
