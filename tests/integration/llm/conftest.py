"""Tests with trainers of language models, in `.venvs/llm`: ``python3 dev.py llm``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest


os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture(autouse=True)
def examples_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    assert str(EXAMPLES) in sys.path
