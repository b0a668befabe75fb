"""The score in what a judge says: one number, marked as the answer, or nothing."""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Any


__all__ = ["ANSWER_WORD", "read_answer", "read_by_pattern"]

ANSWER_WORD = "score"
"""What marks a number as the answer. Text without this word cannot be taken for one."""

_MAX_REPLY = 1 << 18
_MINUS = str.maketrans("\u2212\u2013", "--")  # models write minus signs and dashes, too
_NUMBER = r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
_VALUE = rf"(?P<number>{_NUMBER})(?:[*_`]*[ ]*(?:/|out of)[ ]*(?P<of>{_NUMBER}))?"
_MARKED_VALUE = re.compile(_VALUE)
# A remark stands behind punctuation, in brackets or behind a dash: `1st` and `1 point` are none.
_STYLE = r"[*_`\"]*"
_REMARK = re.compile(
    rf"{_STYLE}(?:[.,;:!]{_STYLE})?\s*|{_STYLE}(?:[.,;:!]{_STYLE}\s|\s+{_STYLE}[(\[\u2014-]).*"
)
# And says nothing that could make another number of it.
_SCALE = re.compile(
    r"[\d%\u2030\u066a]|per\W?cent|\bout\W+of\b|\b(?:five|ten|hundred)\b", re.IGNORECASE
)
_BARE_VALUE = re.compile(rf"[\s*_`\"]*{_VALUE}[\s*_`\".]*")
_OBJECT = re.compile(r"^[ \t]*\{", re.MULTILINE)
_MAX_OBJECTS = 1_000
_THOUGHT = re.compile(r"\s*<think>.*?(?:</think>|\Z)", re.DOTALL)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a key stands there twice")
    return made


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number")


_DECODER = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_no_constant)


def read_answer(reply: str, key: str = "", best: float | None = None) -> float:
    """Return the score that a judge gave.

    It stands at the beginning of a line of its own, ``Score: -0.5``, or in a JSON object on lines
    of its own, ``{"score": 0.5}``; or it is all there is. ``3/4`` is 3 where 4 is the best score.
    Behind it there may be a remark, ``Score: 0.5 (nearly)``, that does not make another number of
    it: ``1%`` and ``1 out of ten`` are no score.
    What a model thinks first (``<think>``) is not part of the answer.

    Args:
        reply: What the judge said.
        key: Where it is given, only an answer that has it counts: ``Score 3fa9: 0.5`` or
            ``{"score": 0.5, "key": "3fa9"}``.
        best: The best score that there is.

    Raises:
        ValueError: There is no answer in one of these forms, or there are several that differ.
    """
    text = _said(reply)
    found = [*_marked(text, key, best), *_objects(text, key)]
    if not found and not key and (bare := _BARE_VALUE.fullmatch(text)):
        found = [_value(bare, best)]
    return _only(found, reply)


def read_by_pattern(reply: str, pattern: re.Pattern[str]) -> float:
    """Return the score that a pattern finds: its first group, or all of it where it has none.

    Raises:
        ValueError: It finds none, what is no number, or several that differ.
    """
    group = 1 if pattern.groups else 0
    found = [each.group(group) for each in pattern.finditer(_said(reply))]
    if None in found:  # the group is an optional one
        raise ValueError(f"no score where the pattern was found in {reply!r:.300}")
    return _only([float(each) for each in found], reply)


def _said(reply: str) -> str:
    if len(reply) > _MAX_REPLY:
        raise ValueError(f"a reply of {len(reply)} characters is too long to be read")
    thought = _THOUGHT.match(reply)
    return reply[thought.end() if thought else 0 :].translate(_MINUS)


def _only(found: list[float], reply: str) -> float:
    if not found:
        raise ValueError(f"no score in {reply!r:.300}")
    if any(each != found[0] for each in found):
        raise ValueError(f"several scores in {reply!r:.300}")
    return found[0]


def _marked(text: str, key: str, best: float | None) -> list[float]:
    word = rf"{ANSWER_WORD}[ ]+{re.escape(key)}" if key else ANSWER_WORD
    marks = re.compile(
        rf"^[ \t>*_`#-]*(?:(?:final|overall|total)[ ]+)?{word}[ *_`]*[:=][\s*_`\"]*(?P<rest>.*)$",
        re.IGNORECASE | re.MULTILINE,
    )
    found = []
    for mark in marks.finditer(text):
        # The longest number there is, and only then what is behind it: else `10%` would be a 1.
        value = _MARKED_VALUE.match(mark["rest"])
        if value is None or not _is_remark(mark["rest"][value.end() :]):
            raise ValueError(f"no number alone behind the mark in {mark[0]!r:.300}")
        found.append(_value(value, best))
    return found


def _is_remark(text: str) -> bool:
    """Tell whether what stands behind a number leaves it as it is."""
    return _REMARK.fullmatch(text) is not None and not _SCALE.search(
        unicodedata.normalize("NFKC", text)
    )


def _value(match: re.Match[str], best: float | None) -> float:
    if match["of"] is not None and float(match["of"]) != best:
        raise ValueError(f"{match[0]!r:.80} is a fraction of something else than the best score")
    return float(match["number"])


def _objects(text: str, key: str) -> list[float]:
    found: list[float] = []
    end = 0
    for count, start in enumerate(_OBJECT.finditer(text)):
        if count == _MAX_OBJECTS:
            raise ValueError("too many objects to look through")
        if start.start() < end:
            continue  # inside the last one
        try:
            value, end = _DECODER.raw_decode(text, start.end() - 1)
        except (ValueError, RecursionError):
            continue
        # As it is written, not as JSON reads it: `s\u0063ore` in what is judged was not found to be
        # the word, and no key was asked for.
        if f'"{ANSWER_WORD}"' not in text[start.end() - 1 : end]:
            continue
        if ANSWER_WORD in value and (not key or value.get("key") == key):
            behind = text[end:].partition("\n")[0]
            if behind.strip(" \t`"):
                raise ValueError(f"{behind!r:.300} stands behind the score")
            found.append(_plain_number(value[ANSWER_WORD]))
    return found


def _plain_number(value: Any) -> float:
    if isinstance(value, str) and re.fullmatch(_NUMBER, value):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{value!r:.80} is no number")
    try:
        return float(value)
    except OverflowError:
        raise ValueError("a number that is too large") from None
