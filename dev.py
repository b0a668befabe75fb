#!/usr/bin/env python3
"""Set up this checkout and run it: ``python3 dev.py play``, ``test``, ``lint``, ``bench``...

Needs Python 3.10 or newer and nothing else: this file and `tools` use the standard library alone,
make a virtual environment in ``.venv`` and install what the command needs there. The first run
takes a minute or two; later ones find everything in place and start at once.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tools.groups import (
    APART,
    DOCS,
    GROUPS,
    LLM_TRAINERS,
    OPENENV_RELEASES,
    TRAINERS,
    VENV,
    prepare,
)
from tools.progress import say
from tools.venvs import ROOT, SetupError, ensure_venv


OLDEST_PYTHON = (3, 10)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command of the command line and return its exit status."""
    parser = argparse.ArgumentParser(
        prog="dev.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="commands:\n"
        + "\n".join(f"  {name:12} {_summary(function)}" for name, function in COMMANDS.items()),
    )
    parser.add_argument("command", choices=list(COMMANDS), metavar="COMMAND")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="passed on to the command")
    if not (sys.argv[1:] if arguments is None else arguments):
        parser.print_help()
        return 2
    parsed = parser.parse_args(arguments)
    try:
        if sys.version_info < OLDEST_PYTHON:
            raise SetupError(
                f"Python {'.'.join(map(str, OLDEST_PYTHON))} or newer is needed, and this is "
                f"{platform.python_version()}. Run this file with a newer one, for instance: "
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
    """Watch Pong being played on a server of its own, in a container where Docker runs."""
    python = prepare("play")
    said = any(re.match(r"--provider|-h$|--help$", argument) for argument in arguments)
    if not said and _docker_answers():
        # Where it fails, the game says so, and is played in a process.
        _build_images(python, ["atari_env"])
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


def images(arguments: Sequence[str]) -> int:
    """Build the container images: `images [NAME...]`, or no name for all of them."""
    return _build_images(prepare("images"), arguments)


def environments(arguments: Sequence[str]) -> int:
    """Build the images of all environments, and play each in its container."""
    python = prepare("test")
    if status := _build_images(python, ()):
        return status
    return run([python, "-m", "pytest", "-m", "images", "tests", *arguments])


def browser(arguments: Sequence[str]) -> int:
    """Play the web page in Chromium, which is to be installed (Debian: chromium)."""
    python = prepare("browser")
    command = [python, "-m", "pytest", "-m", "browser", "tests/web/browser", *arguments]
    if os.geteuid() == 0 and sys.platform == "linux":
        # With a loopback interface and nothing else: what the page asks of others it does not get,
        # and Chromium breaks nothing off because an interface of this machine comes or goes.
        command = [python, "tests/testbed/loopback.py", *command]
    return run(command)


def upstream(arguments: Sequence[str]) -> int:
    """Run Gymnasium's own tests on this library's ids."""
    python = prepare("upstream", venv=ROOT / ".venvs" / "upstream")
    return run([python, "tests/upstream/run.py", *arguments])


def torch(arguments: Sequence[str]) -> int:
    """Run the tests that need PyTorch."""
    python = prepare("upstream", venv=ROOT / ".venvs" / "upstream")
    return run([python, "-m", "pytest", "-m", "torch", *arguments])


def trainers(arguments: Sequence[str]) -> int:
    """Train here and on servers, and compare: `trainers [--short] [--picture] [NAME...]`."""
    parser = argparse.ArgumentParser(prog="dev.py trainers")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(TRAINERS))
    parser.add_argument("--short", action="store_true", help="only ppo, for half a minute")
    parser.add_argument("--picture", action="store_true", help="draw the curves for the docs")
    parsed = parser.parse_args(arguments)
    if unknown := [name for name in parsed.names if name not in TRAINERS]:
        parser.error(f"no trainer {', '.join(unknown)}; there are {', '.join(TRAINERS)}")
    names = ["ppo"] if parsed.short else parsed.names or list(TRAINERS)
    for name in names:
        groups, venv = TRAINERS[name]
        prepare(*groups, venv=ROOT / ".venvs" / venv)
    if parsed.picture:
        return run([prepare("test", "bench"), "-m", "tests.integration.trainers.picture", *names])
    # One after the other: each has processes of its own.
    command = [prepare("test"), "-m", "pytest", "tests/integration/trainers", "-k"]
    marked = "trainers and not long" if parsed.short else "trainers or long"
    return run([*command, " or ".join(names), "-m", marked])


def ray(arguments: Sequence[str]) -> int:
    """Run the tests that need Ray, on a cluster of several nodes on this machine."""
    python = prepare("ray", venv=ROOT / ".venvs" / "ray")
    return run([python, "-m", "pytest", "-m", "ray", "tests/ray", *arguments])


def llm(arguments: Sequence[str]) -> int:
    """Run the tests with trainers of language models: TRL, verl's and SkyRL's parts for tools."""
    python = prepare("llm", venv=ROOT / ".venvs" / "llm")
    names = [requirement.partition("==")[0] for requirement in LLM_TRAINERS]
    there = subprocess.run([python, "-m", "pip", "show", "-q", *names], stderr=subprocess.DEVNULL)
    install = [python, "-m", "pip", "install", "-q", "--no-deps", *LLM_TRAINERS]
    if there.returncode and (status := run(install)):
        return status
    return run([python, "-m", "pytest", "-m", "llm", "tests/integration/llm", *arguments])


def openenv(arguments: Sequence[str]) -> int:
    """Run the tests against OpenEnv itself: `openenv [--envs DIR]`, a checkout's environments."""
    parser = argparse.ArgumentParser(prog="dev.py openenv", add_help=False)
    parser.add_argument("--envs", type=Path)
    parsed, rest = parser.parse_known_args(arguments)
    python = prepare("test")
    for release, requirements in OPENENV_RELEASES.items():
        ensure_venv(ROOT / ".venvs" / f"openenv-{release}", requirements, what=requirements[0])
    if parsed.envs is not None:
        os.environ["OPENENV_ENVS"] = str(parsed.envs.resolve())
    return run([python, "-m", "pytest", "-m", "openenv", "tests/integration", *rest])


def docs(arguments: Sequence[str]) -> int:
    """Build the documentation's site, or `docs --serve`: watch it while it is edited."""
    python = ensure_venv(ROOT / ".venvs" / "docs", DOCS, what="what makes the site")
    return run([python, "docs/site/build.py", *arguments])


def soak(arguments: Sequence[str]) -> int:
    """Start hundreds of servers, kill their owners at random moments, and see what is left."""
    python = prepare("test")
    return run(
        [python, "-m", "pytest", "-m", "long", "-s", "tests/providers/test_soak.py", *arguments]
    )


def swarm(arguments: Sequence[str]) -> int:
    """Run the tests on Docker Swarms of one and of three nodes, made for that; needs root."""
    parser = argparse.ArgumentParser(prog="dev.py swarm", add_help=False)
    parser.add_argument("--image", help="take an image that is there, and build none")
    parsed, rest = parser.parse_known_args(arguments)
    if parsed.image is not None:
        os.environ["OPENENV_SWARM_IMAGE"] = parsed.image
    # In one process: a swarm is made once for all tests, and they change it.
    return run([prepare("test"), "-m", "pytest", "-m", "swarm", *rest])


def replays(arguments: Sequence[str]) -> int:
    """Record a thousand steps of each environment in a process, and replay them in a container."""
    python = prepare("test")
    if status := _build_images(python, ()):
        return status
    command = [python, "-m", "pytest", "-m", "long and images", "-n", "0"]
    return run([*command, "tests/recording/test_elsewhere.py", *arguments])


def kubernetes(arguments: Sequence[str]) -> int:
    """Run the tests on a real cluster: `kubernetes --binaries DIR`; root and Docker are needed."""
    parser = argparse.ArgumentParser(prog="dev.py kubernetes", add_help=False)
    parser.add_argument("--binaries", required=True, help="what tests/testbed/kubernetes/build.sh")
    parsed, rest = parser.parse_known_args(arguments)
    python = prepare("test", "images")
    # Shown as they come: names of pods, and hashes of trajectories.
    command = [python, "-m", "pytest", "-m", "kubernetes", "-rA", "tests/providers/kubernetes"]
    return _run_on_cluster(python, parsed.binaries, [*command, *rest])


def providers(arguments: Sequence[str]) -> int:
    """Play one rollout on every provider, and compare: `providers [--binaries DIR]`, as root."""
    parser = argparse.ArgumentParser(prog="dev.py providers", add_help=False)
    parser.add_argument("--binaries", help="of a Kubernetes cluster; left out without them")
    parsed, rest = parser.parse_known_args(arguments)
    python = prepare("test", "images")
    command = [python, "-m", "pytest", "-m", "long or swarm or not swarm", *rest]
    command.append("tests/providers/test_same_rollout.py")
    if parsed.binaries is None:
        return run(command)
    return _run_on_cluster(python, parsed.binaries, command)


def ci(arguments: Sequence[str]) -> int:
    """Do what `.ci/run` does: `lint`, `docs`, then `test`."""
    python = prepare("test", "lint")
    # The tests come last, so that the closing lines of a log tell how they went.
    return _run_all(
        {
            **_lint_steps(python),
            "docs": lambda: docs(()),
            "test": lambda: _pytest(python, arguments),
        },
    )


def setup(arguments: Sequence[str]) -> int:
    """Only make `.venv`, with everything: for an editor, or to work by hand."""
    if arguments:
        raise SetupError(f"`setup` takes no arguments, got {' '.join(arguments)!r}.")
    prepare(*(name for name in GROUPS if name not in APART))
    say(f"ready; activate it with: . {VENV.relative_to(ROOT)}/bin/activate")
    return 0


COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    "play": play,
    "test": test,
    "lint": lint,
    "images": images,
    "bench": bench,
    "environments": environments,
    "replays": replays,
    "browser": browser,
    "upstream": upstream,
    "torch": torch,
    "trainers": trainers,
    "ray": ray,
    "llm": llm,
    "openenv": openenv,
    "docs": docs,
    "soak": soak,
    "swarm": swarm,
    "kubernetes": kubernetes,
    "providers": providers,
    "ci": ci,
    "setup": setup,
}


def _summary(function: Callable[[Sequence[str]], int]) -> str:
    return (function.__doc__ or "").splitlines()[0]


def _build_images(python: str, names: Sequence[str]) -> int:
    # Where no registry can be reached, a stand-in takes the place of the official base image.
    chosen = subprocess.run(
        [python, "servers/base/offline.py", "--if-needed"], cwd=ROOT, stdout=subprocess.PIPE
    )
    if chosen.returncode:
        return chosen.returncode
    os.environ["OPENENV_BASE_IMAGE"] = chosen.stdout.decode().strip()
    return run([python, "-m", "openenv_gym.providers.docker", "build", *names])


def _run_on_cluster(python: str, binaries: str, command: Sequence[str]) -> int:
    """Run a command beside a cluster that is there for it, with images that it needs."""
    if status := _build_images(python, ["echo_env", "gymnasium"]):
        return status
    text = (ROOT / "openenv_gym/_version.py").read_text(encoding="utf-8")
    version = re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE)
    assert version is not None
    images = [f"--image=openenv-gym-{name}:{version[1]}" for name in ("echo", "gymnasium")]
    cluster = [python, "-m", "tests.testbed.kubernetes.cluster", "run", "--binaries", binaries]
    return run([*cluster, *images, "--", *command])


def _docker_answers() -> bool:
    """Tell whether a daemon can be used; one elsewhere is believed to be."""
    host = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    if os.environ.get("OPENENV_PROVIDER", "auto") not in ("auto", "docker"):
        return False
    if not host.startswith("unix://"):
        return True
    with socket.socket(socket.AF_UNIX) as sock:
        return sock.connect_ex(host.removeprefix("unix://")) == 0


def _pytest(python: str, arguments: Sequence[str]) -> int:
    # One more than there are processors: tests wait for containers and clocks, too.
    workers = ["-n", str(min(8, 1 + (os.cpu_count() or 2)))]
    if any(re.match(r"-n|--numprocesses|--pdb|--dist", argument) for argument in arguments):
        workers = []
    # The settings in pyproject.toml have every skipped test listed at the end, with the reason.
    return run([python, "-m", "pytest", *workers, *arguments])


def _lint_steps(python: str) -> dict[str, Callable[[], int]]:
    scripts = [
        "benchmarks",
        "dev.py",
        "docs/site",
        "examples",
        "servers/base",
        "tests/testbed",
        "tests/upstream",
        "tools",
    ]
    return {
        "ruff check": lambda: run([python, "-m", "ruff", "check", "."]),
        "ruff format": lambda: run([python, "-m", "ruff", "format", "--check", "."]),
        "mypy": lambda: run([python, "-m", "mypy"]),
        # Files of the testbed import each other by the names that they have below the checkout.
        "mypy (scripts)": lambda: run([python, "-m", "mypy", "--explicit-package-bases", *scripts]),
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


def _script(python: str, name: str) -> str:
    return str(Path(python).with_name(name))


if __name__ == "__main__":
    sys.exit(main())
