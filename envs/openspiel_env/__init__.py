"""Games of OpenSpiel. Importing this package brings the models only, not the games."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from openspiel_env.models import (
    OpenSpielAction,
    OpenSpielObservation,
    OpenSpielState,
    TextAction,
    TextObservation,
)


if TYPE_CHECKING:
    from openspiel_env.client import OpenSpielEnv

__all__ = [
    "OpenSpielAction",
    "OpenSpielEnv",
    "OpenSpielObservation",
    "OpenSpielState",
    "TextAction",
    "TextObservation",
]


def __getattr__(name: str) -> Any:
    if name == "OpenSpielEnv":  # which a server does not need
        from openspiel_env.client import OpenSpielEnv

        return OpenSpielEnv
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
