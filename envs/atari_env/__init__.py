"""Atari 2600 games. Importing this package brings the models only, not the emulator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from atari_env.models import (
    AtariAction,
    AtariContinuousAction,
    AtariObservation,
    AtariSoundObservation,
    AtariState,
)
from atari_env.options import AtariOptions, PreprocessOptions


if TYPE_CHECKING:
    from atari_env.client import AtariEnv

__all__ = [
    "AtariAction",
    "AtariContinuousAction",
    "AtariEnv",
    "AtariObservation",
    "AtariOptions",
    "AtariSoundObservation",
    "AtariState",
    "PreprocessOptions",
]


def __getattr__(name: str) -> Any:
    if name == "AtariEnv":  # which a server does not need
        from atari_env.client import AtariEnv

        return AtariEnv
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
