"""Runs `attacks` where they do no harm, even if what is tested fails."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from .containment import run_contained


ROOT = Path(__file__).parents[3]
ATTACKS = Path(__file__).with_name("attacks.py").relative_to(ROOT)


@pytest.mark.timeout(400)
def test_attacks() -> None:
    options = ["-q", "-rs", "-p", "no:cacheprovider", "-p", "no:xdist", "--rootdir", str(ROOT)]
    done = run_contained(
        [sys.executable, "-m", "pytest", str(ROOT / ATTACKS), *options], timeout_s=380
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-20_000:]
