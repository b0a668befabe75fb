"""The fixture `docker` and the marker `container`, for every test."""

from __future__ import annotations

import pytest

from tests.support.engines import docker, need_docker


__all__ = ["docker"]


@pytest.hookimpl(tryfirst=True)  # before `-m` takes its choice
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "docker" in getattr(item, "fixturenames", ()):
            item.add_marker("container")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("container") is not None:
        need_docker()
