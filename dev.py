#!/usr/bin/env python3
"""Set up this checkout and run it: ``python3 dev.py play``, ``test``, ``lint``, ``bench``...

Needs Python 3.10 or newer and nothing else: this file uses the standard library alone, makes a
virtual environment in ``.venv`` and installs what the command needs there. The first run takes a
minute or two; later ones find everything in place and start at once.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
OLDEST_PYTHON = (3, 10)
STAMP = "dev.json"  # inside a virtual environment: what `ensure_venv` has put there


@dataclass(frozen=True)
class Group:
    """What one command needs in ``.venv``.

    Attributes:
        extras: Extras of the library.
        environments: Folders below ``envs/``; None stands for every one.
        environment_extra: Extra of each environment package, taken where the package has it.
        requirements: Further requirements.
    """

    extras: tuple[str, ...] = ()
    environments: tuple[str, ...] | None = None
    environment_extra: str | None = None
    requirements: tuple[str, ...] = ()


GROUPS = {
    "play": Group(environments=("atari_env",), requirements=("pillow>=10",)),
    "test": Group(extras=("test",), environment_extra="test"),
    "lint": Group(extras=("test", "lint"), environment_extra="test"),
    "bench": Group(extras=("benchmarks",), environments=("atari_env",)),
}


class SetupError(Exception):
    """Something is missing; the text says what to do about it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command of the command line and return its exit status."""
    parser = argparse.ArgumentParser(
        prog="dev.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="commands:\n"
        + "\n".join(f"  {name:9} {_summary(function)}" for name, function in COMMANDS.items()),
    )
    parser.add_argument("command", choices=list(COMMANDS), metavar="COMMAND")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="passed on to the command")
    parsed = parser.parse_args(arguments)
    try:
        if sys.version_info < OLDEST_PYTHON:
            raise SetupError(
                f"Python {_dotted(OLDEST_PYTHON)} or newer is needed, and this is "
                f"{_dotted(sys.version_info[:3])}. Run this file with a newer one, for instance: "
                f"python3.12 dev.py {parsed.command}"
            )
        return COMMANDS[parsed.command](parsed.arguments)
    except SetupError as error:
        say(str(error))
        return 1
    except KeyboardInterrupt:
        print(file=sys.stderr)
        say("interrupted; the same command takes up where this one stopped.")
        return 130


# -- commands -----------------------------------------------------------------------------------


def play(arguments: Sequence[str]) -> int:
    """Watch Pong being played through a server of its own."""
    python = prepare("play")
    return run([python, "examples/play_pong.py", *arguments])


def test(arguments: Sequence[str]) -> int:
    """Run the tests; arguments go to pytest."""
    return _pytest(prepare("test"), arguments)


def lint(arguments: Sequence[str]) -> int:
    """Check style, formatting, types and the layers."""
    if arguments:
        raise SetupError(f"`lint` takes no arguments, got {' '.join(arguments)!r}.")
    return _run_all(_lint_steps(prepare("lint")))


def bench(arguments: Sequence[str]) -> int:
    """Measure: `bench NAME [--json]`, or no name for a list."""
    return run([prepare("bench"), "-m", "benchmarks", *arguments])


def upstream(arguments: Sequence[str]) -> int:
    """Run Gymnasium's own tests on this library's ids."""
    return run([prepare("test"), "tests/upstream/run.py", *arguments])


def ci(arguments: Sequence[str]) -> int:
    """Do what `.ci/run` does: `lint`, then `test`."""
    python = prepare("test", "lint")
    # The tests come last, so that the closing lines of a log tell how they went.
    return _run_all(
        {**_lint_steps(python), "test": lambda: _pytest(python, arguments)},
    )


def setup(arguments: Sequence[str]) -> int:
    """Only make `.venv`, with everything: for an editor, or to work by hand."""
    if arguments:
        raise SetupError(f"`setup` takes no arguments, got {' '.join(arguments)!r}.")
    prepare(*GROUPS)
    say(f"ready; activate it with: . {VENV.relative_to(ROOT)}/bin/activate")
    return 0


COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    "play": play,
    "test": test,
    "lint": lint,
    "bench": bench,
    "upstream": upstream,
    "ci": ci,
    "setup": setup,
}


def _summary(function: Callable[[Sequence[str]], int]) -> str:
    return (function.__doc__ or "").splitlines()[0]


def _pytest(python: str, arguments: Sequence[str]) -> int:
    workers = ["-n", str(min(8, max(2, os.cpu_count() or 2)))]
    if any(re.match(r"-n|--numprocesses|--pdb|--dist", argument) for argument in arguments):
        workers = []
    # The settings in pyproject.toml have every skipped test listed at the end, with the reason.
    return run([python, "-m", "pytest", *workers, *arguments])


def _lint_steps(python: str) -> dict[str, Callable[[], int]]:
    scripts = ["benchmarks", "dev.py", "examples", "tests/upstream"]
    return {
        "ruff check": lambda: run([python, "-m", "ruff", "check", "."]),
        "ruff format": lambda: run([python, "-m", "ruff", "format", "--check", "."]),
        "mypy": lambda: run([python, "-m", "mypy"]),
        "mypy (scripts)": lambda: run([python, "-m", "mypy", *scripts]),
        "import-linter": lambda: run([_script(python, "lint-imports")]),
    }


def _run_all(steps: dict[str, Callable[[], int]]) -> int:
    """Run every step, even after one has failed, and close with a list of how they went."""
    results = {}
    for name, function in steps.items():
        say(f"{name} ...")
        begin = time.monotonic()
        results[name] = (function(), time.monotonic() - begin)
    for name, (status, seconds) in results.items():
        outcome = "ok" if status == 0 else f"FAILED (exit status {status})"
        say(f"{name:15} {outcome}, {seconds:.1f} s")
    return int(any(status for status, _ in results.values()))


def run(command: Sequence[str]) -> int:
    """Run a command in the checkout, show its output and return its exit status."""
    process = subprocess.Popen(command, cwd=ROOT)
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            # The terminal sent it to the command too, which ends in its own way.
            continue


# -- set-up -------------------------------------------------------------------------------------


def prepare(*names: str) -> str:
    """Make ``.venv`` fit for the named groups, beside those it was fit for before.

    Returns:
        The virtual environment's interpreter.
    """
    projects = [ROOT / "pyproject.toml", *sorted(ROOT.glob("envs/*/pyproject.toml"))]
    # An editable installation points at this folder, so a moved checkout counts as a change.
    digest = _digest([str(ROOT), *(path.read_text(encoding="utf-8") for path in projects)])
    before = _read_stamp(VENV)
    # Groups are added up: `test` after `play` keeps what `play` needs.
    groups = sorted({*names, *(name for name in before.get("groups", ()) if name in GROUPS)})
    return ensure_venv(
        VENV,
        _requirements([GROUPS[name] for name in groups], projects[1:]),
        what="the library and its environments",
        digest=digest,
        facts={"groups": groups},
    )


def _requirements(groups: Iterable[Group], projects: Iterable[Path]) -> list[str]:
    """Return pip's arguments for the groups; `projects` are the environments' pyproject files."""
    groups = list(groups)
    extras = sorted({extra for group in groups for extra in group.extras})
    arguments = ["--editable", f".[{','.join(extras)}]" if extras else "."]
    for project in projects:
        takers = [
            group
            for group in groups
            if group.environments is None or project.parent.name in group.environments
        ]
        wanted = {group.environment_extra for group in takers if group.environment_extra}
        # pip warns of an extra that a package lacks; not every environment needs one.
        having = sorted(extra for extra in wanted if _declares_extra(project, extra))
        if takers:
            suffix = f"[{','.join(having)}]" if having else ""
            folder = project.parent.relative_to(ROOT).as_posix()
            arguments += ["--editable", f"./{folder}{suffix}"]
    return arguments + sorted({line for group in groups for line in group.requirements})


def _declares_extra(project: Path, extra: str) -> bool:
    # Python 3.10 has no TOML parser; a table heading and a key at a line's begin are enough here.
    text = project.read_text(encoding="utf-8")
    table = re.search(
        r"^\[project\.optional-dependencies\]\s*$(.*?)(?=^\[|\Z)", text, re.MULTILINE | re.DOTALL
    )
    return bool(table and re.search(rf"^{re.escape(extra)}\s*=", table[1], re.MULTILINE))


def ensure_venv(
    directory: Path,
    requirements: Sequence[str],
    *,
    what: str,
    digest: str = "",
    facts: dict[str, list[str]] | None = None,
) -> str:
    """Make a virtual environment that holds `requirements`, unless it is there already.

    Args:
        directory: Where it is, or shall be.
        requirements: Arguments of ``pip install``.
        what: What is installed, in words, for the progress lines.
        digest: Changes whenever the same requirements must be installed anew.
        facts: Kept in the stamp, for the caller's own use.

    Returns:
        Its interpreter.

    Raises:
        SetupError: It cannot be made.
    """
    python = directory / "bin" / "python"
    wanted = _digest([digest, sys.version, *requirements])
    if python.exists() and _read_stamp(directory).get("digest") == wanted:
        return str(python)
    name = os.path.relpath(directory, ROOT)
    if not _works(python):
        with _step(f"making {name} with Python {_dotted(sys.version_info[:3])}"):
            _make_venv(directory, python)
    # Gone until the installation is complete: an interrupted one starts over.
    (directory / STAMP).unlink(missing_ok=True)
    with _step(f"installing {what} into {name} (the first time takes a minute or two)"):
        _pip_install(python, requirements)
    stamp = {"digest": wanted, **(facts or {})}
    (directory / STAMP).write_text(json.dumps(stamp, indent=1) + "\n", encoding="utf-8")
    return str(python)


def _works(python: Path) -> bool:
    """Tell whether a virtual environment's interpreter is this Python's and has pip."""
    if not python.exists():
        return False
    code = "import pip, sys; print(*sys.version_info[:2])"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True)
    return done.stdout.split() == [str(number) for number in sys.version_info[:2]]


def _make_venv(directory: Path, python: Path) -> None:
    venv = [sys.executable, "-m", "venv", "--clear"]
    whole = subprocess.run([*venv, directory], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if whole.returncode == 0:
        return
    # Debian and Ubuntu split `ensurepip` off, into python3-venv. A pip outside helps as well.
    pip = importlib.util.find_spec("pip")
    bare = subprocess.run([*venv, "--without-pip", directory], capture_output=True, text=True)
    if pip is not None and pip.submodule_search_locations and bare.returncode == 0:
        folder = next(iter(pip.submodule_search_locations))
        # --ignore-installed: the pip that runs here is not one that is installed there.
        arguments = ["install", "--quiet", "--ignore-installed", "pip"]
        if subprocess.run([python, folder, *arguments]).returncode == 0:
            return
        problem = "pip could not be installed into it (its own words are above)."
    else:
        problem = (bare.stderr or whole.stdout.decode(errors="replace")).strip()
    shutil.rmtree(directory, ignore_errors=True)
    version = _dotted(sys.version_info[:2])
    raise SetupError(
        f"cannot make a virtual environment: {problem}\n"
        "Python's `venv` with `ensurepip`, or pip, is missing. On Debian and Ubuntu:\n"
        f"    sudo apt install python3-venv        (or python{version}-venv)\n"
        "On other systems install pip for the Python above; then run the same command again."
    )


def _pip_install(python: Path, requirements: Sequence[str]) -> None:
    """Run ``pip install`` with the user's own pip settings; show the line it is at, or its end."""
    command = [str(python), "-m", "pip", "install", "--progress-bar=off", *requirements]
    environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    assert process.stdout is not None
    tail: deque[str] = deque(maxlen=25)
    try:
        for line in process.stdout:
            tail.append(line)
            _show_passing(line.strip())
    finally:
        _show_passing("")
        status = process.wait()
    if status:
        print("".join(tail), end="", file=sys.stderr)
        raise SetupError(
            f"pip could not install it (exit status {status}; its last lines are above). Where a "
            "download failed, look at the network and at `python3 -m pip config list`, and run "
            "the same command again: what has been done is kept."
        )


# -- small things -------------------------------------------------------------------------------


def say(text: str) -> None:
    """Print a line of progress; to standard error, since standard output is the command's."""
    print(f"dev: {text}", file=sys.stderr, flush=True)


@contextmanager
def _step(text: str) -> Iterator[None]:
    say(f"{text} ...")
    begin = time.monotonic()
    yield
    say(f"    done in {time.monotonic() - begin:.1f} s")


def _show_passing(text: str) -> None:
    """Show a line that the next one replaces; nothing where the output is no terminal."""
    if sys.stderr.isatty():
        width = shutil.get_terminal_size().columns - 6
        line = f"     {text[:width]}" if text else ""
        print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)


def _read_stamp(directory: Path) -> dict[str, list[str] | str]:
    try:
        stamp = json.loads((directory / STAMP).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def _digest(texts: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def _dotted(numbers: Iterable[object]) -> str:
    return ".".join(str(number) for number in numbers)


def _script(python: str, name: str) -> str:
    return str(Path(python).with_name(name))


if __name__ == "__main__":
    sys.exit(main())
