"""Pages for users: their code runs, their links lead somewhere, the tests that they name exist."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.images import python_image
from tests.support.pages import Block, blocks_of, differs, runs_of, script_of
from tests.support.ports import reserved_port


ROOT = Path(__file__).parents[1]
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    *sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/**/*.md")),
]
PORTS = r"\b(?:8000|8001|8443)\b"  # those that pages name; tests take free ones
LIMIT_S = 400
TOOLS = ("curl", "openssl")  # that not every machine has


# -- code ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES)
def test_each_block_runs_or_says_why_not(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = blocks_of(page)
    problems = [f"{page}:{each.line}: {wrong}" for each in blocks for wrong in each.problems()]
    assert not problems
    assert len(re.findall(r"^ *```", text, re.MULTILINE)) == 2 * len(blocks), "fences not at margin"
    for block in blocks:
        if block.title and block.language in ("python", "console"):
            after = text.split(block.text, 1)[1]
            assert Path(block.title).stem in after, f"{page}:{block.line}: nothing uses it"


def _cases() -> Iterator[object]:
    for page in PAGES:
        for name, marker, blocks in runs_of(page):
            marks = [getattr(pytest.mark, marker)] if marker else []
            if marker == "long":
                marks.append(pytest.mark.container)
            yield pytest.param(blocks, marker, id=name, marks=marks)


@pytest.mark.timeout(LIMIT_S + 30)  # a whole page, maybe on a machine that is busy
@pytest.mark.parametrize(("blocks", "marker"), list(_cases()))
def test_the_code_of_a_page(blocks: list[Block], marker: str, tmp_path: Path) -> None:
    if marker == "torch" and importlib.util.find_spec("torch") is None:
        pytest.skip("needs PyTorch")
    script, steps = script_of(blocks)
    if missing := [tool for tool in TOOLS if f"{tool} " in script and shutil.which(tool) is None]:
        pytest.skip(f"needs {', '.join(missing)}")
    with contextlib.ExitStack() as kept:
        numbers = sorted({*re.findall(PORTS, script)})
        ports = {number: str(kept.enter_context(reserved_port())) for number in numbers}
        for number, port in ports.items():
            script = re.sub(rf"\b{number}\b", port, script)
        output = _run(script, tmp_path, _environment(marker))
    for number, port in ports.items():
        output = re.sub(rf"\b{port}\b", number, output)
    parts = re.split(r"^@@ \d+ (\d+)\n", output, flags=re.MULTILINE)
    for step, printed, status in zip(steps, parts[::2], [*parts[1::2], "none"], strict=False):
        assert status == str(step.status), f"{step.command}\n{printed}\nexit status {status}"
        assert not (found := differs(step, printed)), found
    assert len(parts) // 2 == len(steps)


def _environment(marker: str) -> dict[str, str]:
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]]),
        "OPENENV_PROVIDER": "process",
    }
    if marker in ("container", "long"):
        environment["OPENENV_BASE_IMAGE"] = python_image()  # of what is built where it is missing
    return environment


def _run(script: str, folder: Path, environment: dict[str, str]) -> str:
    """Run a script for bash in a folder, and return what it and its children printed."""
    with subprocess.Popen(
        ["bash", "-c", script],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            return process.communicate(timeout=LIMIT_S)[0]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return process.communicate()[0]


# -- links --------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    path = ROOT / page
    for target, anchor in re.findall(
        r"\]\((?!https?://)([^)#]*)#?([^)]*)\)", path.read_text(encoding="utf-8")
    ):
        found = path.parent / target if target else path
        assert found.exists(), target
        if anchor:
            titles = re.findall(r"^#+ (.*)$", found.read_text(encoding="utf-8"), re.MULTILINE)
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
