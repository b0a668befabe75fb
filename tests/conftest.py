"""The fixture `docker` and the markers `container`, `long` and `swarm`, for every test."""

from __future__ import annotations

import pytest

from tests.support.engines import docker, need_docker


__all__ = ["docker"]


@pytest.hookimpl(tryfirst=True)  # before `-m` takes its choice
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if "docker" in getattr(item, "fixturenames", ()):
            item.add_marker("container")
    # Not in `addopts`: another `-m`, such as that for containers, would bring them back.
    named = config.option.markexpr.split()
    unnamed = [marker for marker in ("long", "swarm") if marker not in named]
    left_out = [item for item in items if any(map(item.get_closest_marker, unnamed))]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("container") is not None:
        need_docker()
