"""ALE's serialised states, checked before the emulator gets them.

Its reader trusts what it reads: counts of arrays that it fills, numbers of banks that it turns into
addresses, clocks between which it draws. So a state is compared with one that the emulator has
just saved itself: names, lengths, counts and truth values have to be where they are there, and
numbers on which addresses depend within bounds.

The format is that of ale-py's ``ALEState::serialize``: integers of four bytes, truth values as one
of two integers, texts with their length before them. The state of the console is one of the texts;
it ends with the generator, and holds another one behind its beginning.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


__all__ = ["MT19937_WORDS", "Checker", "generator_words"]

Words = NDArray[np.uint32]

_TRUTHS = (0xFAB1FAB2, 0xBAD1BAD2)  # Serializer.hxx
_NUMBERS = re.compile(rb"[0-9]{1,10}( [0-9]{1,10})*")

MT19937_WORDS = 624
"""Numbers in the state of a generator, without its position."""

_PARTS = (b"M6502Low", b"M6532", b"TIA", b"TIASound", b"Cartridge")

_BYTES = (1 << 8,)
# Of each kind of cartridge, what precedes the game's own numbers (the functions `load` in
# Cart*.cxx): the least number that is too large for a bank, beyond which there is no memory; or, in
# a tuple, for each of as many numbers as the one before them says.
_CARTRIDGES: dict[bytes, tuple[int | tuple[int], ...]] = {
    b"2K": (),
    b"4K": (),
    b"FE": (),
    b"F8": (2,),
    b"F8SC": (2, _BYTES),
    b"F6": (4,),
    b"F6SC": (4, _BYTES),
    b"F4": (8,),
    b"F4SC": (8, _BYTES),
    b"E0": (_BYTES,),
    b"UA": (2,),
    b"DPC": (2, _BYTES, _BYTES, (2048,), _BYTES, (1 << 32,)),
}
_SHIFTS = (0, 3, 6, 10)  # of the timer, M6532.cxx
_LINE = 228  # clocks, TIA.hxx


class Checker:
    """Checks states of one game.

    Args:
        own: A state that the emulator has saved itself, generator included.
    """

    def __init__(self, own: bytes) -> None:
        self._head, console, self._tail = _split(own)
        self._begin, self._fixed = _rest_of(console)

    def check(self, data: bytes) -> None:
        """Check a serialised state, generator included.

        Raises:
            ValueError: It is no state of the same game, or one that the emulator could not bear.
        """
        head, console, tail = _split(data)
        # Paddles, frames of all games and of this one, mode and difficulty; bounds of the paddles.
        if not (np.array_equal(head[4:], self._head[4:]) and np.array_equal(tail, self._tail)):
            raise ValueError("it is one of another mode or difficulty")
        if max(head[:4]) >= 1 << 31:
            raise ValueError("its counters are none")
        begin, fixed = _rest_of(console)
        if begin != self._begin or len(fixed) != len(self._fixed):
            raise ValueError("the emulator's state is one of another game or version")
        _check_parts(fixed, self._fixed)


def generator_words(text: bytes) -> Words:
    """Return the numbers in the text of a generator, a C++ ``std::mt19937``.

    Returns:
        The 624 words of its state and, in libstdc++ only, the position. Shape (624,) or (625,).

    Raises:
        ValueError: It is none.
    """
    if _NUMBERS.fullmatch(text) is None:
        raise ValueError("the state holds no generator")
    words = np.fromstring(text.decode(), np.uint64, sep=" ")
    if len(words) not in (MT19937_WORDS, MT19937_WORDS + 1):
        raise ValueError("the state holds no generator")
    if words.max() >= 1 << 32 or words[MT19937_WORDS:].max(initial=0) > MT19937_WORDS:
        raise ValueError("the state's generator is none")
    return words.astype(np.uint32)


def _split(data: bytes) -> tuple[Words, bytes, Words]:
    """Return what precedes the console's state, that state, and what follows it."""
    if len(data) < 36:
        raise ValueError("the emulator's state ends too early")
    if len(data) != 28 + int.from_bytes(data[24:28], "little") + 8:
        raise ValueError("the emulator's state has another length than it says")
    return np.frombuffer(data, "<u4", 6), data[28:-8], np.frombuffer(data[-8:], "<u4")


def _rest_of(console: bytes) -> tuple[tuple[bytes, bytes], bytes]:
    """Take the generators out of a console's state.

    Returns:
        The game's digest and the first name; and all between the generators, with the truth value
        that precedes the second one.
    """
    place, texts = 0, []
    for _ in range(2):
        text, place = _text(console, place)
        texts.append(text)
    generator, place = _text(console, place + 4)  # behind the cycles
    generator_words(generator)
    begin = len(console.rstrip(b"0123456789 "))
    last, end = _text(console, begin - 4) if begin - 4 > place else (b"", 0)
    generator_words(last)
    if end != len(console):
        raise ValueError("the emulator's state does not end where its generator does")
    return (texts[0], texts[1]), console[place : begin - 4]


def _text(data: bytes, place: int) -> tuple[bytes, int]:
    size = int.from_bytes(data[place : place + 4], "little")
    end = place + 4 + size
    if end > len(data):
        raise ValueError("the emulator's state ends too early")
    return data[place + 4 : end], end


def _check_parts(fixed: bytes, own: bytes) -> None:
    """Check processor, timer, picture, sound, cartridge and the game's own numbers."""
    place = 0
    names: list[bytes] = []
    parts: list[tuple[Words, Words]] = []
    for name in _PARTS:
        start = own.index(name, place)
        size = int.from_bytes(own[start - 4 : start], "little")
        if names:
            parts.append(_words(fixed[place : start - 4], own[place : start - 4]))
        place = start + size
        if fixed[start - 4 : place] != own[start - 4 : place]:
            raise ValueError("the emulator's state is one of another game or version")
        names.append(own[start:place])
    parts.append(_words(fixed[place:], own[place:]))
    _, timer, picture, _, cartridge = parts
    _check_counted(timer, 0, *_BYTES)
    if timer[0][130] not in _SHIFTS:
        raise ValueError("its timer is none")
    _check_clocks(picture[0].astype(np.int32), picture[1].astype(np.int32))
    kind = names[-1].removeprefix(b"Cartridge")
    if kind not in _CARTRIDGES:
        raise ValueError(f"cartridges of the kind {kind.decode()} cannot be checked")
    _check_cartridge(cartridge, _CARTRIDGES[kind])


def _words(found: bytes, own: bytes) -> tuple[Words, Words]:
    """Return words beside those of the emulator's own state; truth values have to be such."""
    words, ours = np.frombuffer(found, "<u4"), np.frombuffer(own, "<u4")
    if (_is_truth(ours) & ~_is_truth(words)).any():
        raise ValueError("the emulator's state is damaged")
    return words, ours


def _is_truth(words: Words) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = (words == _TRUTHS[0]) | (words == _TRUTHS[1])
    return found


def _check_counted(part: tuple[Words, Words], place: int, limit: int) -> int:
    """Check a count, and as many numbers behind it; return where they end."""
    words, own = part
    end = place + 1 + int(own[place])
    if words[place] != own[place] or words[place + 1 : end].max(initial=0) >= limit:
        raise ValueError("the emulator's memory is damaged")
    return end


def _check_clocks(words: Sequence[int], own: Sequence[int]) -> None:
    """Check where in a picture the console is, so that it stays within it."""
    started, first, last, drawn, left = (int(word) for word in words[:5])
    if last - first != int(own[2]) - int(own[1]) or first - started != int(own[1]) - int(own[0]):
        raise ValueError("its picture has another size")
    if not (first <= drawn <= last and 0 <= left <= _LINE):
        raise ValueError("its picture is drawn beyond its end")


def _check_cartridge(part: tuple[Words, Words], form: tuple[int | tuple[int], ...]) -> None:
    place = 0
    for limit in form:
        if isinstance(limit, tuple):
            place = _check_counted(part, place, *limit)
        elif part[0][place] >= limit:
            raise ValueError("its cartridge has no such bank")
        else:
            place += 1
