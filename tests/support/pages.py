"""The code on a page of documentation: its blocks, how each is marked, and a script that runs them.

A block is a fence with a language. One of Python or console runs, unless the line above it says
why not::

    <!-- not run: needs an account -->       one of `REASONS`
    <!-- run: container -->                  runs in a test with this marker, one of `MARKERS`
    <!-- run: every time -->                 runs in such a test, too, because others need it
    <!-- run: figures differ -->             runs; numbers of its output are others each time

A block with ``title="NAME"`` is a file of that name, which later blocks use. What a Python block
prints stands in the block of text right below it. A console block has commands after ``$ `` and
below them what they print, where ``...`` stands for anything; a command whose comment says
``exits with 1`` does so. One that ends with ``&`` goes on; the next one waits for its first line.

Each block runs by itself; on a page with ``<!-- blocks build on each other -->`` they run one after
the other, in one shell and one folder. What builds images says so on lines that do not count.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path


__all__ = ["MARKERS", "REASONS", "Block", "Step", "blocks_of", "differs", "runs_of", "script_of"]

ROOT = Path(__file__).parents[2]

REASONS = {
    "a fragment": "of a program or a file that is not on the page",
    "changes the machine": "installs packages, services or settings",
    "needs a cluster": "a Docker Swarm or Kubernetes of one's own",
    "needs a service": "one that runs elsewhere: a server, a model",
    "needs an account": "with somebody who runs machines",
    "takes minutes": "and is run by a command of `dev.py`",
    "what another run printed": "of this very command: names and numbers of one machine",
}
"""Why a block need not run."""

MARKERS = ("container", "long", "torch")
"""Markers of tests, for blocks that not every run of the tests can afford."""

CODE = ("python", "console")
DATA = ("diff", "dockerfile", "ini", "json", "nginx", "text", "toml", "yaml")

_FENCE = re.compile(
    r"^(?:<!-- (?P<note>(?:not run|run): [^\n]*) -->\n+)?"
    r"```(?P<info>[^\n]*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_PAGE = "<!-- blocks build on each other -->"
_FORKING = "ignore:This process:DeprecationWarning"  # NumPy has threads, which Python counts
_STATUS = re.compile(r"#.*\bexits with (\d+)")


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        page: Path below the checkout.
        line: Number of the line of its fence.
        language: First word of the fence.
        title: Name of the file that it is, or an empty string.
        text: What it holds.
        note: How it is marked, such as ``"run: container"``, or an empty string.
        printed: What the block of text right below it says.
    """

    page: str
    line: int
    language: str
    title: str
    text: str
    note: str
    printed: str = ""

    @property
    def runs(self) -> bool:
        """Whether it is to be run."""
        return self.language in CODE and not self.note.startswith("not run")

    @property
    def marker(self) -> str:
        """The marker of the test that runs it, or an empty string."""
        return next((word for word in self._words if word in MARKERS), "")

    @property
    def figures_differ(self) -> bool:
        """Whether numbers that it prints are others each time."""
        return "figures differ" in self._words

    def goes_with(self, marker: str) -> bool:
        """Tell whether a test with a marker, or without one, runs it where a page is one program."""
        return self.marker == marker or "every time" in self._words

    @property
    def _words(self) -> list[str]:
        return re.split(", *", self.note.partition(": ")[2])

    def problems(self) -> Iterator[str]:
        """Yield what is wrong with how it is written."""
        if self.language not in CODE + DATA:
            yield f"the fence says {self.language!r}, and not one of {', '.join(CODE + DATA)}"
        if self.language in DATA and self.note:
            yield f"{self.language} is not run, and needs no mark"
        if self.note.startswith("not run") and self._words[0] not in REASONS:
            yield f"no reason: {self._words[0]!r}; expected one of {', '.join(REASONS)}"
        if self.note.startswith("run"):
            known = (*MARKERS, "every time", "figures differ")
            yield from (f"unknown: {word!r}" for word in self._words if word not in known)
        if self.language == "console" and not self.text.startswith("$ "):
            yield "a console block begins with `$ ` and a command"


@dataclass(frozen=True)
class Step:
    """Something that a script does, and what it should print."""

    command: str
    printed: str
    status: int = 0
    figures_differ: bool = False


def blocks_of(page: str) -> list[Block]:
    """Return the blocks of a page, in order."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found: list[Block] = []
    end = -1
    for match in _FENCE.finditer(text):
        language, _, rest = match["info"].strip().partition(" ")
        title = re.search(r'title="([^"]+)"', rest)
        line = text.count("\n", 0, match.start("info")) + 1
        adjacent = not text[end : match.start()].strip() if end >= 0 else False
        if language == "text" and adjacent and not title and found[-1].language == "python":
            found[-1] = Block(**{**found[-1].__dict__, "printed": match["text"]})
        name = title[1] if title else ""
        found.append(Block(page, line, language, name, match["text"], match["note"] or ""))
        end = match.end()
    return found


def runs_of(page: str) -> Iterator[tuple[str, str, list[Block]]]:
    """Yield what is run of a page: a name, a marker or an empty string, and blocks."""
    blocks = blocks_of(page)
    if _PAGE in (ROOT / page).read_text(encoding="utf-8"):
        for marker in dict.fromkeys(block.marker for block in blocks if block.runs):
            chosen = [block for block in blocks if block.title or block.goes_with(marker)]
            yield f"{page}-{marker or 'all'}", marker, chosen
    else:
        for block in blocks:
            if block.runs:
                yield f"{page}:{block.line}", block.marker, [block]


# -- running ------------------------------------------------------------------------------------


def script_of(blocks: Sequence[Block]) -> tuple[str, list[Step]]:
    """Return a script for bash that runs blocks, and its steps.

    The script prints a line ``@@ N STATUS`` after the output of step N, and ends with the first
    step whose status is not the expected one.
    """
    steps = [step for block in blocks for step in _steps_of(block)]
    lines = [f"strictly() {{ python -W error -W '{_FORKING}' \"$@\"; }}"]
    lines.append("trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT")
    for number, step in enumerate(steps):
        command = step.command
        if command.endswith("&"):
            log = f"background{number}.log"
            command = (
                f": >{log}\n"  # or the command's own may come after the first look
                f"{command.removesuffix('&')} >{log} 2>&1 &\n"
                f"for _ in {{1..600}}; do grep -q . {log} && break; sleep 0.1; done; cat {log}"
            )
        lines += [command, f'status=$?; printf "\\n@@ {number} $status\\n"']
        lines.append(f"[ $status = {step.status} ] || exit 1")
    return "\n".join(lines) + "\n", steps


def _steps_of(block: Block) -> Iterator[Step]:
    if block.title:
        target = shlex.quote(block.title)
        yield Step(f"cat >{target} <<'@@END'\n{block.text}@@END", "")
    elif block.runs and block.language == "python":
        # As a file, as users have it: processes that are spawned import it.
        name = f"block{block.line}.py"
        command = f"cat >{name} <<'@@END'\n{block.text}@@END\nstrictly {name}"
        yield Step(command, block.printed, 0, block.figures_differ)
    elif block.runs:
        for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
            lines = part.splitlines()
            size = next(number for number, line in enumerate(lines, 1) if not line.endswith("\\"))
            command, printed = "\n".join(lines[:size]), "\n".join(lines[size:])
            status = _STATUS.search(command)
            if not printed and not command.endswith("&"):
                printed = "..."  # the page does not say
            yield Step(command, printed, int(status[1]) if status else 0, block.figures_differ)


def differs(step: Step, output: str) -> str:
    """Return how an output differs from what the page says; nothing where it does not."""
    expected = [line.rstrip() for line in step.printed.strip().splitlines()]
    output = re.sub(r"^openenv: .*\n", "", output, flags=re.MULTILINE)
    seen = [line.rstrip() for line in output.strip().splitlines()]
    pattern = "\n".join(_pattern_of(line, step.figures_differ) for line in expected)
    pattern = pattern.replace("\n.*?", "(?:\n.*?)?")  # a line of dots may stand for no line
    if re.fullmatch(pattern, "\n".join(seen), re.DOTALL):
        return ""
    return "\n".join([step.command, "-- the page says:", *expected, "-- it printed:", *seen])


def _pattern_of(line: str, figures_differ: bool) -> str:
    parts = []
    for part in line.split("..."):
        part = re.escape(part)
        if figures_differ:
            part = re.sub(r"\d[\d,]*(?:\\\.\d+)?", r"[\\d,.]+", part)
            part = re.sub(r"(?:\\ )+", r" +", part)
        parts.append(part)
    return ".*?".join(parts)
