"""The loop on which blocking clients of what is asynchronous run it."""

from __future__ import annotations

from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from openenv_gym.background import Background


__all__ = ["run_blocking", "start_in_background"]

T = TypeVar("T")

_background = Background("openenv-gym-io")


def run_blocking(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on this process's loop for clients; see `Background.run`."""
    return _background.run(coroutine)


def start_in_background(coroutine: Coroutine[Any, Any, T]) -> Future[T]:
    """Run a coroutine on that loop, and do not wait for it; see `Background.start`."""
    return _background.start(coroutine)
