"""Coding environments that end with their test."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from coding_env.models import CodeAction, CodeObservation
from coding_env.server.coding_environment import CodingEnvironment


Make = Callable[..., CodingEnvironment]


@pytest.fixture
def make() -> Iterator[Make]:
    """Return a function that makes environments."""
    made: list[CodingEnvironment] = []

    def make_one(**options: Any) -> CodingEnvironment:
        environment = CodingEnvironment(**{"allow_unsandboxed": True, **options})
        made.append(environment)
        return environment

    yield make_one
    for environment in made:
        environment.close()


@pytest.fixture(scope="module")
def shared() -> Iterator[CodingEnvironment]:
    environment = CodingEnvironment(allow_unsandboxed=True, wall_s=60.0, render_mode="ansi")
    yield environment
    environment.close()


@pytest.fixture
def env(shared: CodingEnvironment) -> CodingEnvironment:
    """Return an environment at the begin of an episode, whose time is enough for a busy machine."""
    shared.reset(seed=1)
    return shared


def run(environment: CodingEnvironment, code: str) -> CodeObservation:
    return environment.step(CodeAction(code=code))


@contextlib.contextmanager
def hurried(environment: CodingEnvironment, wall_s: float = 1.0) -> Iterator[None]:
    """Give programs little time: those that never end, and no others, which may have to wait."""
    interpreter, judge = environment._interpreter, environment._judge
    assert interpreter is not None
    limits, judging_s = interpreter._limits, judge._wall_s
    interpreter._limits, judge._wall_s = dataclasses.replace(limits, wall_s=wall_s), wall_s
    try:
        yield
    finally:
        interpreter._limits, judge._wall_s = limits, judging_s
