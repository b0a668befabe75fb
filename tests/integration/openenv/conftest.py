"""Real OpenEnv servers, each in the virtual environment of its release."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.integration.openenv.running import RELEASES, launched, openenv_program


SERVED = Path(__file__).with_name("served.py")

Launch = Callable[..., str]
Serve = Callable[..., str]


@pytest.fixture(params=RELEASES)
def release(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def launch() -> Iterator[Launch]:
    """Start servers, as `launched` does; they end with the test."""
    with contextlib.ExitStack() as stack:

        def start(command: Sequence[object], **options: Any) -> str:
            return stack.enter_context(launched(command, **options)).url

        yield start


@pytest.fixture
def serve(release: str, launch: Launch) -> Serve:
    """Start servers on a release of OpenEnv."""
    python = openenv_program("python", release)

    def start(slots: int = 1, certificate: tuple[Path, Path] | None = None) -> str:
        command = [python, SERVED, "{port}", slots, *(certificate or ())]
        return launch(command, certificate=certificate[0] if certificate else None)

    return start
