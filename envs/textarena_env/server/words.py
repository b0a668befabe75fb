"""English words for TextArena's word games.

TextArena takes its words from NLTK's corpora, which are no package: NLTK fetches them from a site
of its own when a game is imported. A server in a container has no network, and equal seeds are to
give equal games wherever they are played. So the games get a stand-in for the few functions of NLTK
that they use, and its words are those that TextArena itself brings along:

* all words: the American dictionary (``en_US.dic``);
* basic words, of which secret ones are chosen: those of the dictionary that occur in TextArena's
  own Taboo cards and crosswords, which are well known words;
* nouns: those with the dictionary's mark for a possessive form (``M``).
"""

from __future__ import annotations

import functools
import importlib.util
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType


__all__ = ["nltk_stand_in"]


@contextmanager
def nltk_stand_in() -> Iterator[None]:
    """Have ``import nltk`` give the stand-in, within the block alone."""
    nltk, corpus = ModuleType("nltk"), ModuleType("nltk.corpus")
    corpus.words = _Words()  # type: ignore[attr-defined]
    nltk.corpus = corpus  # type: ignore[attr-defined]
    nltk.pos_tag = _tags  # type: ignore[attr-defined]
    nltk.download = lambda *names, **options: True  # type: ignore[attr-defined]
    modules = {"nltk": nltk, "nltk.corpus": corpus}
    outside = {name: sys.modules.get(name) for name in modules}
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name, module in outside.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module


class _Words:
    """Stands for ``nltk.corpus.words``."""

    def words(self, name: str = "en") -> list[str]:
        """Return all words, or with the name ``en-basic`` those that everybody knows."""
        return list(_basic() if name == "en-basic" else _dictionary())


def _tags(words: Iterable[str]) -> list[tuple[str, str]]:
    """Tell nouns from other words; stands for ``nltk.pos_tag``."""
    marks = _dictionary()
    return [(word, "NN" if "M" in marks.get(word, "") else "XX") for word in words]


@functools.cache
def _dictionary() -> dict[str, str]:
    """Return words in lower case, in order, each with its marks."""
    lines = (_folder() / "utils" / "data" / "en_US.dic").read_text(encoding="utf-8").splitlines()
    entries = [line.partition("/") for line in lines[1:]]  # the first one says how many there are
    return {word: marks for word, _, marks in sorted(entries) if re.fullmatch("[a-z]+", word)}


@functools.cache
def _basic() -> list[str]:
    """Return well known words, in order."""
    files = ("Taboo/words.json", "Crosswords/words_clues.jsonl")
    text = "".join((_folder() / name).read_text(encoding="utf-8").lower() for name in files)
    return sorted(set(re.findall("[a-z]{3,}", text)) & _dictionary().keys())


def _folder() -> Path:
    """Return where TextArena's games are, without importing them."""
    spec = importlib.util.find_spec("textarena")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("No module named 'textarena'", name="textarena")
    return Path(spec.origin).parent / "envs"
