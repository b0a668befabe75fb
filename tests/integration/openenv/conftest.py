"""Real OpenEnv servers, each in the virtual environment of its release."""

from __future__ import annotations

import contextlib
import socket
import ssl
import subprocess
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.waiting import eventually


ROOT = Path(__file__).resolve().parents[3]
SERVED = Path(__file__).with_name("served.py")
RELEASES = ("0.10", "0.3")

Launch = Callable[..., str]
Serve = Callable[..., str]


def find_python(release: str) -> Path:
    """Return the Python that has a release of OpenEnv, or skip the test."""
    python = ROOT / ".venvs" / f"openenv-{release}" / "bin" / "python"
    if not python.exists():
        pytest.skip(f"OpenEnv {release} is not installed: run `python3 dev.py openenv`")
    return python


@pytest.fixture(params=RELEASES)
def release(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[Launch]:
    """Start servers; they end with the test. ``{port}`` in a command becomes a free port."""
    with contextlib.ExitStack() as stack:

        def start(
            command: Sequence[object], *, cwd: str | None = None, certificate: Path | None = None
        ) -> str:
            with socket.create_server(("127.0.0.1", 0)) as free:
                port = str(free.getsockname()[1])
            log = stack.enter_context((tmp_path / f"{port}.log").open("wb"))
            process = subprocess.Popen(
                [str(part).replace("{port}", port) for part in command],
                stdout=log,
                stderr=log,
                cwd=cwd,
            )
            stack.callback(process.wait, 20)
            stack.callback(process.kill)
            url = f"{'https' if certificate else 'http'}://localhost:{port}"
            context = ssl.create_default_context(cafile=certificate) if certificate else None

            def answers() -> bool:
                if process.poll() is not None:
                    pytest.fail((tmp_path / f"{port}.log").read_text())
                with contextlib.suppress(OSError):
                    urllib.request.urlopen(f"{url}/health", timeout=5, context=context).close()
                    return True
                return False

            assert eventually(answers, 90)
            return url

        yield start


@pytest.fixture
def serve(release: str, launch: Launch) -> Serve:
    """Start servers on a release of OpenEnv."""
    python = find_python(release)

    def start(slots: int = 1, certificate: tuple[Path, Path] | None = None) -> str:
        command = [python, SERVED, "{port}", slots, *(certificate or ())]
        return launch(command, certificate=certificate[0] if certificate else None)

    return start
