"""The fixture `docker`, markers of tests that are left out unless they are named, and Hypothesis."""

from __future__ import annotations

import os
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

# No test fails because the machine is busy, and every run has the same examples: who changes
# something else is not told of what another run would not have found. Longer searches go elsewhere.
settings.register_profile(
    "openenv-gym",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize="OPENENV_GYM_FUZZ_EXAMPLES" not in os.environ,
)
settings.load_profile("openenv-gym")


def pytest_configure() -> None:
    # What a shell starts in the background ignores Ctrl-C, and so does all that it starts. Tests of
    # Ctrl-C are about what runs in a terminal.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    _settle_examples()


def _settle_examples() -> None:
    """Have Hypothesis draw the same examples each time, and not mind how long they take.

    Who searches for longer wants others.
    """
    try:
        from hypothesis import HealthCheck, settings
    except ImportError:  # where only trainers are tested
        return
    settings.register_profile(
        "ours",
        derandomize="OPENENV_GYM_FUZZ_EXAMPLES" not in os.environ,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("ours")


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
