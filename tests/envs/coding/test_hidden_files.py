"""Files with hidden tests, which no program reads, under whatever name."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from coding_env.server.coding_environment import CodingEnvironment

from .conftest import Make, run


TASK = {"id": "square", "prompt": "Write `square(n)`.", "tests": ["assert square(2) == 4"]}


@pytest.fixture
def prefix(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a directory that Python is said to be in, by the name of a link to it."""
    # Not below pytest's own, which root alone can read.
    place = Path(tempfile.mkdtemp(prefix="openenv-test-"))
    real = place / "real"
    (real / "lib" / "tasks").mkdir(parents=True)
    (real / "lib" / "tasks" / "tasks.jsonl").write_text(json.dumps(TASK))
    (real / "lib" / "module.py").write_text("x = 1")
    # Inside of what is split up because of what it hides, one to all of it and one to the file.
    (real / "all").symlink_to(real)
    (real / "lib" / "more").symlink_to(real / "lib" / "tasks")
    (real / "lib" / "again.jsonl").symlink_to(real / "lib" / "tasks" / "tasks.jsonl")
    (place / "link").symlink_to(real)
    place.chmod(0o755)
    monkeypatch.setattr(sys, "exec_prefix", str(place / "link"))
    yield place / "link"
    shutil.rmtree(place)


def opened(environment: CodingEnvironment, path: Path) -> str:
    return run(environment, f"open({str(path)!r}).read()").result


@pytest.mark.parametrize("named", ["link", "real"])
def test_a_prefix_that_is_a_link_shows_no_hidden_tests(
    make: Make, prefix: Path, named: str
) -> None:
    real = Path(os.path.realpath(prefix))
    tasks = {"link": prefix, "real": real}[named] / "lib" / "tasks" / "tasks.jsonl"
    environment = make(tasks=str(tasks), attempts=20)
    environment.reset()
    if "landlock" not in environment.state.isolation:
        pytest.skip("the kernel has no Landlock")
    for top in (prefix, real, real / "all"):
        assert opened(environment, top / "lib" / "module.py") == "'x = 1'"
        for name in ("tasks/tasks.jsonl", "more/tasks.jsonl", "again.jsonl"):
            assert opened(environment, top / "lib" / name) == ""
