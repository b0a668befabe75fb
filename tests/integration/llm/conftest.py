"""Tests with trainers of language models, in `.venvs/llm`: ``python3 dev.py llm``."""

from __future__ import annotations

from pathlib import Path

import pytest


HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have nothing looked up on the Hub. Not at import: other tests have a Hub of their own."""
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture(autouse=True)
def found_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have examples found by their names, also by spawned children and by servers."""
    monkeypatch.syspath_prepend(str(HERE.parents[2] / "examples"))
    monkeypatch.syspath_prepend(str(HERE))
