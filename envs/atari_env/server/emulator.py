"""ale-py's emulator with snapshots that bring back everything.

``ALEInterface.cloneState`` leaves out what the screen shows until the next frame, and which action
is in effect ("sticky actions": a frame takes the new action with probability
``1 - repeat_action_probability``, and keeps the one in effect otherwise). `Emulator` stands in
front of an ``ALEInterface`` and adds them. The screen is kept beside the state and shown until the
next frame. The action in effect can neither be read nor set, so it is worked out from the actions
since the last reset and the state of ALE's generator at that moment, and set by acting until a
frame takes it. The sound generator is left out as well, and that is beyond help.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import ale_py
import numpy as np
from numpy.typing import NDArray

from atari_env.server.snapshots import MT19937_WORDS, Checker, generator_words


__all__ = ["Emulator"]

Bytes = NDArray[np.uint8]

_OFTEN_READ = (
    "game_over",
    "game_truncated",
    "getEpisodeFrameNumber",
    "getFrameNumber",
    "getRAM",
    "lives",
)

_LONGEST_RECORD = 1 << 16
"""Frames after which the record of actions begins anew."""


class Emulator:
    """An ``ALEInterface`` with `save` and `restore`; everything else is passed on.

    Args:
        ale: The interface, with a game loaded.
    """

    def __init__(self, ale: ale_py.ALEInterface) -> None:
        self._ale = ale
        # Read on every step, and looking up a method of ale-py's takes longer than calling it.
        for name in _OFTEN_READ:
            setattr(self, name, getattr(ale, name))
        self._getScreen = ale.getScreen
        self._getScreenRGB = ale.getScreenRGB
        self._getScreenGrayscale = ale.getScreenGrayscale
        # The action in effect is NOOP after a reset; 1.0 is the full deflection of a paddle.
        self._effective: tuple[int, float] = (0, 1.0)
        # The frames since `_mark`. Two lists of scalars, since one of tuples would be work for
        # the garbage collector.
        self._actions: list[Any] = []
        self._strengths: list[float] = []
        self._shown: _Picture | None = None
        self._checker: Checker | None = None
        self._probability = 0.0
        self._mark: ale_py.ALEState | None = None
        self._read_probability()
        self._begin_record()
        self.act = self._make_act()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ale, name)

    # -- what changes the state ---------------------------------------------------------------

    def loadROM(self, rom: Any) -> None:
        """Load a game, which puts settings and seed into effect."""
        self._ale.loadROM(rom)
        self._checker = None
        self._read_probability()
        self._effective = (0, 1.0)
        self._begin_record()

    def reset_game(self) -> None:
        """Begin a new game."""
        self._ale.reset_game()
        self._effective = (0, 1.0)
        self._begin_record()

    def _make_act(self) -> Callable[..., int]:
        """Return `act`, which runs for every frame: a closure looks nothing up on `self`."""
        act_once = self._ale.act
        record, strengths = self._actions, self._strengths
        keep, keep_strength = record.append, strengths.append

        def act(action: Any, paddle_strength: float = 1.0) -> int:
            """Emulate one frame; return the reward."""
            if len(record) >= _LONGEST_RECORD:
                self._effective = self._action_in_effect()
                self._begin_record()
            keep(action)
            keep_strength(paddle_strength)
            if self._shown is not None:
                self._shown = None
            return act_once(action, paddle_strength)

        return act

    def restoreState(self, state: ale_py.ALEState) -> None:
        """Restore what ALE itself saves."""
        self._effective = self._action_in_effect()
        self._ale.restoreState(state)
        self._begin_record()

    # -- what a restored state shows until the next frame -------------------------------------

    def getScreen(self, *buffer: Bytes) -> Bytes | None:
        """Return the screen in the console's own colours, or write it into `buffer`."""
        shown = self._shown
        return self._getScreen(*buffer) if shown is None else _give(shown.screen, *buffer)

    def getScreenRGB(self, *buffer: Bytes) -> Bytes | None:
        """Return the screen in colour, or write it into `buffer`."""
        shown = self._shown
        if shown is None:
            return self._getScreenRGB(*buffer)
        return _give(shown.rgb[shown.screen], *buffer)

    def getScreenGrayscale(self, *buffer: Bytes) -> Bytes | None:
        """Return the screen in grey, or write it into `buffer`."""
        shown = self._shown
        if shown is None:
            return self._getScreenGrayscale(*buffer)
        return _give(shown.gray[shown.screen], *buffer)

    # -- snapshots ----------------------------------------------------------------------------

    def save(self) -> dict[str, Any]:
        """Return the present state as plain data."""
        picture = _Picture.of(self)
        action, strength = self._action_in_effect()
        return {
            "emulator": self._ale.cloneState(include_rng=True).serialize(),
            "action": action,
            "strength": strength,
            "screen": picture.pack(),
        }

    def restore(self, serialized: bytes, effective: tuple[int, float], screen: bytes) -> None:
        """Return to a state that `save` returned, of the same game.

        Args:
            serialized: What ALE itself saves.
            effective: The action in effect, and its strength.
            screen: What is shown until the next frame.

        Raises:
            ValueError: The data is no such state; nothing has changed then.
        """
        if self._checker is None:
            self._checker = Checker(self._ale.cloneState(include_rng=True).serialize())
        self._checker.check(serialized)
        picture = _Picture.unpack(screen, self._ale.getScreenDims())
        state = ale_py.ALEState(serialized)
        self._put_into_effect(effective, state, serialized)
        self._ale.restoreState(state)
        self._effective = effective
        self._begin_record()
        self._shown = picture

    # -- the action in effect -----------------------------------------------------------------

    def _read_probability(self) -> None:
        # ALE holds a float32 and compares it with a double.
        self._probability = float(np.float32(self._ale.getFloat("repeat_action_probability")))

    def _begin_record(self) -> None:
        """Forget the actions so far, `_effective` being what they led to."""
        self._actions.clear()
        self._strengths.clear()
        self._shown = None
        # Without sticky actions every frame takes its own, and nothing needs to be known.
        self._mark = self._ale.cloneState(include_rng=True) if self._probability > 0 else None

    def _action_in_effect(self) -> tuple[int, float]:
        if self._mark is None or not self._actions:
            return self._effective
        taken = self._frames_that_take(self._mark.serialize(), len(self._actions))
        if not taken.size:
            return self._effective
        last = int(taken[-1])
        action = self._actions[last]
        number = action.value if isinstance(action, ale_py.Action) else int(action)
        return number, float(self._strengths[last])

    def _put_into_effect(
        self, effective: tuple[int, float], state: ale_py.ALEState, serialized: bytes
    ) -> None:
        """Make an action the one in effect, whatever that does to the rest of the state."""
        if state.getEpisodeFrameNumber() == 0:
            # Nothing but a reset makes NOOP the action in effect for certain, and leaves in the
            # picture memory, which is not saved either, what a first frame may not draw over.
            self._ale.reset_game()
        elif self._probability > 0:
            taken = self._frames_that_take(serialized, 64)
            if not taken.size:
                taken = self._frames_that_take(serialized, _LONGEST_RECORD)
            if taken.size:
                self._ale.restoreState(state)
                for _ in range(int(taken[0]) + 1):
                    self._ale.act(*effective)
            else:
                # Next to never does a frame take a new action: it is NOOP that is in effect.
                self._ale.reset_game()

    def _frames_that_take(self, serialized: bytes, frames: int) -> NDArray[np.intp]:
        """Return which of the next frames take a new action, as ascending numbers from 0."""
        return np.flatnonzero(_frame_draws(serialized, frames) >= self._probability)


class _Picture:
    """A screen in the console's own colours, with what ALE makes of each of them."""

    __slots__ = ("gray", "rgb", "screen")

    def __init__(self, screen: Bytes, rgb: Bytes, gray: Bytes) -> None:
        self.screen = screen  # (height, width)
        self.rgb = rgb  # (256, 3): number of a colour to red, green and blue
        self.gray = gray  # (256,): number of a colour to grey

    @classmethod
    def of(cls, emulator: Emulator) -> _Picture:
        size = emulator.getScreenDims()
        screen, in_rgb, in_gray = (np.empty(s, np.uint8) for s in (size, (*size, 3), size))
        emulator.getScreen(screen)
        emulator.getScreenRGB(in_rgb)
        emulator.getScreenGrayscale(in_gray)
        rgb, gray = np.zeros((256, 3), np.uint8), np.zeros(256, np.uint8)
        rgb[screen], gray[screen] = in_rgb, in_gray
        return cls(screen, rgb, gray)

    def pack(self) -> bytes:
        # A screen has few colours in long runs: 35 KB become about 1 KB.
        plain = self.rgb.tobytes() + self.gray.tobytes() + self.screen.tobytes()
        return zlib.compress(plain, level=1)

    @classmethod
    def unpack(cls, data: bytes, size: tuple[int, int]) -> _Picture:
        height, width = size
        expected = 1024 + height * width
        try:
            # Bounded, because the data came over the wire.
            plain = zlib.decompressobj().decompress(data, expected + 1)
        except zlib.error as error:
            raise ValueError("the screen is damaged") from error
        if len(plain) != expected:
            raise ValueError("the screen has another size")
        values = np.frombuffer(plain, np.uint8)
        return cls(
            screen=values[1024:].reshape(height, width),
            rgb=values[:768].reshape(256, 3),
            gray=values[768:1024],
        )


def _frame_draws(serialized: bytes, frames: int) -> NDArray[np.float64]:
    """Return what ALE's generator draws for the first player in the next frames.

    Args:
        serialized: A serialised ALE state that includes the generator.
        frames: Number of frames.

    Returns:
        Shape (frames,), float64, from 0 up to 1.
    """
    # The generator is the last string of the state, and two integers of four bytes follow.
    end = len(serialized) - 8
    words = generator_words(serialized[len(serialized[:end].rstrip(b"0123456789 ")) : end])
    generator = np.random.MT19937()
    generator.state = {
        "bit_generator": "MT19937",
        "state": {
            "key": words[:MT19937_WORDS],
            "pos": int(words[MT19937_WORDS]) if words.size > MT19937_WORDS else MT19937_WORDS,
        },
    }
    # Each frame draws twice: for this player, and for the other one, who is never there.
    draws: NDArray[np.float64] = generator.random_raw(2 * frames)[::2] / 2.0**32
    return draws


def _give(picture: Bytes, *buffer: Bytes) -> Bytes | None:
    if buffer:
        buffer[0][...] = picture
        return None
    copy: Bytes = picture.copy()
    return copy
