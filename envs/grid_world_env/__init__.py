"""Grid world: walk to the goal. Importing it brings the models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grid_world_env.models import GridWorldAction, GridWorldObservation, MoveAction


if TYPE_CHECKING:
    from grid_world_env.client import GridWorldEnv

__all__ = ["GridWorldAction", "GridWorldEnv", "GridWorldObservation", "MoveAction"]


def __getattr__(name: str) -> Any:
    if name == "GridWorldEnv":  # which a server does not need
        from grid_world_env.client import GridWorldEnv

        return GridWorldEnv
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
