"""Run Gymnasium's own tests on this library's ids: ``python3 dev.py upstream``.

Gymnasium's distributions do not hold its tests, so they come from its repository at the tag of the
release that is installed: cloned into ``build/``, or from a checkout that is there already. They
are copied away from the checkout, whose own ``gymnasium`` would be imported otherwise.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path


ROOT = Path(__file__).resolve().parents[2]
REPOSITORY = "https://github.com/Farama-Foundation/Gymnasium"
# Suite -> the plugin beside this file that makes it ours, and its files.
SUITES = {
    "envs": ("plugin", ["tests/envs/test_envs.py"]),
    "vector": (
        "vector_plugin",
        [
            "tests/vector/test_async_vector_env.py",
            "tests/vector/test_autoreset_mode.py",
            "tests/vector/test_vector_env.py",
            "tests/vector/test_vector_env_info.py",
            "tests/vector/test_observation_mode.py",
            "tests/wrappers/vector",
        ],
    ),
}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="dev.py upstream",
        description="Run Gymnasium's own tests on this library's ids.",
        epilog="Other arguments go to pytest: -k cartpole, -n 2, tests/envs/test_rendering.py ...",
    )
    parser.add_argument(
        "--gymnasium", type=Path, metavar="DIR", help="a checkout of Gymnasium (default: clone it)"
    )
    parser.add_argument(
        "--suite",
        choices=SUITES,
        default="envs",
        help="envs: our ids in the place of Gymnasium's; vector: RemoteVectorEnv in that of "
        "AsyncVectorEnv (default: envs)",
    )
    parser.add_argument("--provider", default="thread", help="where environments run")
    parser.add_argument(
        "--local", action="store_true", help="test Gymnasium's own ids, as a check of this harness"
    )
    options, arguments = parser.parse_known_args()
    checkout = options.gymnasium or clone(metadata.version("gymnasium"))
    if not (checkout / "tests" / "envs" / "utils.py").is_file():
        parser.error(f"{checkout} is no checkout of Gymnasium: it has no tests/envs/utils.py")
    return run(checkout, options.suite, arguments, provider=options.provider, local=options.local)


def clone(version: str) -> Path:
    """Return a checkout of Gymnasium at a release's tag; made once."""
    directory = ROOT / "build" / f"gymnasium-{version}"
    if not directory.exists():
        print(f"upstream: cloning Gymnasium {version} into {directory.relative_to(ROOT)}")
        command = ["git", "clone", "--quiet", "--depth=1", f"--branch=v{version}"]
        done = subprocess.run([*command, REPOSITORY, directory])
        if done.returncode:
            shutil.rmtree(directory, ignore_errors=True)
            sys.exit(
                f"upstream: cannot clone {REPOSITORY} at v{version}. Where it is out of reach, "
                "name a checkout: python3 dev.py upstream --gymnasium DIR"
            )
    return directory


def run(checkout: Path, suite: str, arguments: list[str], *, provider: str, local: bool) -> int:
    """Run pytest on a copy of a checkout's tests and return its exit status."""
    plugin, files = SUITES[suite]
    with tempfile.TemporaryDirectory(prefix="upstream-") as folder:
        shutil.copytree(checkout / "tests", Path(folder, "tests"))
        shutil.copy(checkout / "pyproject.toml", folder)  # upstream's own settings of pytest
        chosen = [] if any(argument.startswith("tests/") for argument in arguments) else files
        command = [sys.executable, "-m", "pytest", "-p", plugin, "-ra", "--strict-markers"]
        command += ["--openenv-local"] if local else ["--openenv-provider", provider]
        path = os.pathsep.join(
            filter(None, [str(Path(__file__).parent), os.environ.get("PYTHONPATH")])
        )
        return subprocess.run(
            [*command, *chosen, *arguments],
            cwd=folder,
            env={**_off_screen(), **os.environ, "PYTHONPATH": path},
        ).returncode


def _off_screen() -> dict[str, str]:
    """Return variables with which drawing needs no display, where there is none.

    Without them MuJoCo aborts the process. And SDL's choice of its own would be a driver that ends
    EGL for the whole process when a window closes, under MuJoCo's feet.
    """
    shown = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if shown or sys.platform != "linux":
        return {}
    return {"MUJOCO_GL": "egl", "SDL_VIDEODRIVER": "dummy"}


if __name__ == "__main__":
    sys.exit(main())
