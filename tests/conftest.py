"""The fixture `docker` and the markers `container` and `long`, for every test."""

from __future__ import annotations

import pytest

from tests.support.engines import docker, need_docker


__all__ = ["docker"]


@pytest.hookimpl(tryfirst=True)  # before `-m` takes its choice
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if "docker" in getattr(item, "fixturenames", ()):
            item.add_marker("container")
    if "long" in config.option.markexpr.split():
        return
    # Not in `addopts`: another `-m`, such as that for containers, would bring them back.
    left_out = [item for item in items if item.get_closest_marker("long") is not None]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item.get_closest_marker("long") is None]


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("container") is not None:
        need_docker()
