"""Tests with trainers of language models, in `.venvs/llm`: ``python3 dev.py llm``."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def found_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have examples found by their names, also by spawned children and by servers."""
    monkeypatch.syspath_prepend(str(HERE.parents[2] / "examples"))
    monkeypatch.syspath_prepend(str(HERE))
