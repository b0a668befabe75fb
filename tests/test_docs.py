"""Code on pages for users runs as it is, each block by itself."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest


ROOT = Path(__file__).parents[1]
PAGES = [
    "docs/branching.md",
    "docs/clients.md",
    "docs/discovery.md",
    "docs/environments.md",
    "docs/mcp.md",
    "docs/multi_agent.md",
    "docs/recording.md",
    "docs/rubrics.md",
    "docs/spaces.md",
    "docs/vector.md",
]
BLOCKS = [
    pytest.param(block, id=f"{page}-{number}")
    for page in PAGES
    for number, block in enumerate(
        re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE),
        1,
    )
]
FORKING = "ignore:This process:DeprecationWarning"  # NumPy has threads, which Python counts


@pytest.mark.parametrize("block", BLOCKS)
def test_a_block_runs(block: str, tmp_path: Path) -> None:
    path = tmp_path / "block.py"
    path.write_text(block)
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-W", FORKING, path],
        cwd=tmp_path,
        env={**os.environ, "OPENENV_PROVIDER": "process"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=100,
    )
    assert (ended.returncode, ended.stdout) == (0, "")


@pytest.mark.parametrize(
    "page", ["README.md", *(f"docs/{path.name}" for path in sorted(ROOT.glob("docs/*.md")))]
)
def test_links_lead_somewhere(page: str) -> None:
    path = ROOT / page
    for target, anchor in re.findall(r"\]\((?!https?://)([^)#]*)#?([^)]*)\)", path.read_text()):
        found = path.parent / target if target else path
        assert found.exists(), target
        if anchor:
            titles = re.findall(r"^#+ (.*)$", found.read_text(), re.MULTILINE)
            words = [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles]
            assert anchor in words, anchor


# -- tests that pages name ------------------------------------------------------------------------

LEGEND = re.compile(r"^\| \*([\w ]+)\* \| `(tests/[^`]+)`", re.MULTILINE)
NAMED = re.compile(r"\*([\w ]+)\*: ((?:`test_[^`]+`(?:, )?)+)")
TEST = re.compile(r"`(test_\w+)(?:\[([^\]]+)\])?`")
TEXTS = {path: path.read_text() for path in (ROOT / "tests").rglob("*.py")}


def has_test(path: Path, name: str, case: str) -> bool:
    """Tell whether a file has a test, with a case of that name where one is given."""
    return f"def {name}(" in TEXTS[path] and (not case or f'"{case}"' in TEXTS[path])


@pytest.mark.parametrize("page", sorted(path.name for path in ROOT.glob("docs/*.md")))
def test_tests_that_a_page_names_are_there(page: str) -> None:
    text = (ROOT / "docs" / page).read_text()
    for path in re.findall(r"`(tests/[\w/.]+)`", text):
        assert (ROOT / path).exists(), path
    for name, case in TEST.findall(text):
        assert any(has_test(path, name, case) for path in TEXTS), name
    places = dict(LEGEND.findall(text))
    for place, tests in NAMED.findall(text):
        for name, case in TEST.findall(tests):
            assert has_test(ROOT / places[place], name, case), f"{place}: {name}"


def test_each_row_about_openenv_names_a_test() -> None:
    shown = False
    for line in (ROOT / "docs" / "openenv.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" |")]
        if not line.startswith("|"):
            shown = False
        elif cells[-1] == "shown by":
            shown = True
        elif shown and set(line) - set("|-"):
            assert re.search(r"`test_|`tests/", cells[-1]) or cells[1] == "not there yet", line
