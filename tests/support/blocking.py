"""An environment for one test, whose steps end when that test says so."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from tests.support.worlds import BlockingEnv


__all__ = ["blocking"]


@pytest.fixture
def blocking() -> Iterator[type[BlockingEnv]]:
    """A `BlockingEnv` whose events no other test has; at the end the gate opens by itself."""

    class Blocking(BlockingEnv):
        gate = threading.Event()
        entered = threading.Event()

    yield Blocking
    Blocking.gate.set()
