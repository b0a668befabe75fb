"""Atari 2600 games. Importing this package brings the models only, not the emulator."""

from atari_env.models import (
    AtariAction,
    AtariContinuousAction,
    AtariObservation,
    AtariSoundObservation,
    AtariState,
)
from atari_env.options import AtariOptions, PreprocessOptions


__all__ = [
    "AtariAction",
    "AtariContinuousAction",
    "AtariObservation",
    "AtariOptions",
    "AtariSoundObservation",
    "AtariState",
    "PreprocessOptions",
]
