r"""What a regular expression says about the characters and the length of a text.

Only expressions that are a row of single characters and character classes, each with or without a
count, between ``^`` and ``$`` are understood: ``^[a-h][1-8][a-h][1-8][qrbn]?$``. Of all others
nothing is said; the model checks them. Classes are read as ASCII, although ``\d`` and ``\w``
match more where Pydantic checks.
"""

from __future__ import annotations

import re
import string
from dataclasses import dataclass


__all__ = ["Form", "form_of"]

_MAX_CLASS = 4096  # characters of one class

_ATOM = re.compile(
    r"(?P<any>\.)|\[(?P<negated>\^?)(?P<members>(?:[^\]\[\\]|\\.)+)\]|\\(?P<escaped>.)"
    r"|(?P<literal>[^.\^$*+?{}\[\]\\|()])",
    re.DOTALL,
)
_COUNT = re.compile(r"\{(?P<least>\d+)(?P<comma>,(?P<most>\d*))?\}|(?P<sign>[*+?])")
_SIGNS: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}

_CLASSES = {
    "d": string.digits,
    "w": string.ascii_letters + string.digits + "_",
    "s": string.whitespace,
}
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v"}


@dataclass(frozen=True, slots=True)
class Form:
    """What a text that matches looks like.

    Attributes:
        charset: Characters that occur, in the order of their code points.
        min_length: Least number of characters.
        max_length: Greatest number of characters, None without one.
    """

    charset: str
    min_length: int
    max_length: int | None


def form_of(pattern: str) -> Form | None:
    """Return what a regular expression says about a text, None where it is not a simple one."""
    if not pattern.startswith("^") or not pattern.endswith("$") or pattern.endswith(r"\$"):
        return None
    position, end = 1, len(pattern) - 1
    characters: set[str] = set()
    shortest, longest = 0, 0
    endless = False
    while position < end:
        atom = _ATOM.match(pattern, position, end)
        found = None if atom is None else _characters(atom)
        if atom is None or not found:
            return None
        position = atom.end()
        least, most = 1, 1  # type: int, int | None
        count = _COUNT.match(pattern, position, end)
        if count is not None:
            position = count.end()
            least, most = _counts(count)
        if most is not None and most < least:
            return None
        characters |= found
        shortest += least
        if most is None:
            endless = True
        else:
            longest += most
    if not characters:
        return None
    return Form("".join(sorted(characters)), shortest, None if endless else longest)


def _counts(count: re.Match[str]) -> tuple[int, int | None]:
    if count["sign"]:
        return _SIGNS[count["sign"]]
    least = int(count["least"])
    if count["comma"] is None:
        return least, least
    return least, int(count["most"]) if count["most"] else None


def _characters(atom: re.Match[str]) -> set[str] | None:
    if atom["any"]:
        return set(string.printable) - {"\n"}
    if atom["literal"]:
        return {atom["literal"]}
    if atom["escaped"]:
        return _escaped(atom["escaped"])
    members = _members(atom["members"])
    if members is None or not atom["negated"]:
        return members
    return set(string.printable) - members


def _members(text: str) -> set[str] | None:
    """Return the characters of a class, given what stands between its brackets."""
    if any(operator in text for operator in ("&&", "--", "~~")):
        return None
    items: list[set[str]] = []
    parts = re.findall(r"\\.|.", text, re.DOTALL)
    index = 0
    while index < len(parts):
        first = _member(parts[index])
        if index + 2 < len(parts) and parts[index + 1] == "-":
            last = _member(parts[index + 2])
            if first is None or last is None or len(first) != 1 or len(last) != 1:
                return None
            begin, end = ord(*first), ord(*last)
            if not 0 <= end - begin < _MAX_CLASS:
                return None
            items.append({chr(code) for code in range(begin, end + 1)})
            index += 3
        else:
            if first is None:
                return None
            items.append(first)
            index += 1
    return set().union(*items)


def _member(part: str) -> set[str] | None:
    return {part} if len(part) == 1 else _escaped(part[1])


def _escaped(character: str) -> set[str] | None:
    if character in _CLASSES:
        return set(_CLASSES[character])
    if character in _CONTROLS:
        return {_CONTROLS[character]}
    # What else a letter or digit means after a backslash is no single character.
    return None if character.isalnum() else {character}
