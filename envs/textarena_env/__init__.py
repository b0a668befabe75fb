"""TextArena: text games for language models. Importing it brings the models, not the games."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from openenv_gym.models import CallToolAction, ListToolsAction
from textarena_env.models import (
    TextArenaAction,
    TextArenaMessage,
    TextArenaObservation,
    TextArenaState,
)


if TYPE_CHECKING:
    from textarena_env.client import TextArenaEnv

__all__ = [
    "CallToolAction",
    "ListToolsAction",
    "TextArenaAction",
    "TextArenaEnv",
    "TextArenaMessage",
    "TextArenaObservation",
    "TextArenaState",
]


def __getattr__(name: str) -> Any:
    if name == "TextArenaEnv":  # which a server does not need
        from textarena_env.client import TextArenaEnv

        return TextArenaEnv
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
