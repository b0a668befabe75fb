"""What is saved of a game."""

from __future__ import annotations

from pydantic import Field

from openenv_gym.server import SavedState


__all__ = ["SavedGame"]


class SavedGame(SavedState):
    """What `AtariEnvironment.save_state` returns.

    Attributes:
        emulator: What ALE itself saves, its generator included.
        action: The action in effect, one of ALE's 18.
        strength: How strong it is, where actions are continuous.
        screen: The screen that is shown until the next frame, compressed.
    """

    emulator: bytes = Field(max_length=1 << 20)
    action: int = Field(ge=0, lt=18)
    strength: float = Field(ge=-1e3, le=1e3, allow_inf_nan=False)
    screen: bytes = Field(max_length=1 << 20)
