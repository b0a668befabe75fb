"""A vector environment over several servers in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.vector.worlds import Fleet


@pytest.fixture
def fleet() -> Iterator[Callable[..., Fleet]]:
    made: list[Fleet] = []

    def make(*args: Any, **kwargs: Any) -> Fleet:
        made.append(Fleet(*args, **kwargs))
        return made[-1]

    yield make
    for each in made:
        each.env.close(terminate=True)
        for server in each.servers:
            server.stop()
