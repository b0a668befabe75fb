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
    "docs/clients.md",
    "docs/discovery.md",
    "docs/environments.md",
    "docs/mcp.md",
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
