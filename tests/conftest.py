"""The fixture `docker`, markers of tests that run only where they are named, and Hypothesis."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.engines import docker, need_docker
from tests.support.images import ALWAYS_BUILT


__all__ = ["docker"]

LEFT_OUT = ("browser", "images", "llm", "long", "swarm", "trainers")
"""Markers of tests that only run where ``-m`` names them."""

_ENVIRONMENTS = Path(__file__).parent / "envs"

# The same examples in each run, and no limit of time for any of them: a change is not refused for
# what chance finds in something else, nor because a machine had other things to do for a moment.
# `--hypothesis-profile=default` looks for more.
settings.register_profile(
    "openenv", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("openenv")


def pytest_configure() -> None:
    # What a shell starts in the background ignores Ctrl-C, and so does all that it starts. Tests of
    # Ctrl-C are about what runs in a terminal.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)  # before `-m` takes its choice
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if "docker" in getattr(item, "fixturenames", ()):
            item.add_marker("container")
        if item.get_closest_marker("container") is not None and _is_of_further_image(item.path):
            item.add_marker("images")
    # Not in `addopts`: another `-m`, such as that for containers, would bring them back.
    named = config.option.markexpr.split()
    unnamed = [marker for marker in LEFT_OUT if marker not in named]
    left_out = [item for item in items if any(map(item.get_closest_marker, unnamed))]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def _is_of_further_image(path: Path) -> bool:
    return _ENVIRONMENTS in path.parents[1:] and f"{path.parent.name}_env" not in ALWAYS_BUILT


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("container") is not None:
        need_docker()
