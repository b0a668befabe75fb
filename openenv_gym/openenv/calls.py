"""Calls that are to be awaited, and that say so where somebody forgets."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Generator
from typing import Any, NoReturn, ParamSpec, TypeVar

from openenv_gym import errors


__all__ = ["Call", "awaitable"]

T = TypeVar("T")
P = ParamSpec("P")


class Call(Coroutine[Any, Any, T]):
    """A call that runs when it is awaited: ``result = await client.reset()``.

    It is a coroutine in every respect, so that `asyncio.run` and `asyncio.create_task` take it.
    Whoever uses it as if it were the result gets an error that says what to do.

    Args:
        coroutine: What runs.
        name: What was called.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, T], name: str) -> None:
        self._coroutine = coroutine
        self._name = name

    def __await__(self) -> Generator[Any, Any, T]:
        return self._coroutine.__await__()

    def send(self, value: Any) -> Any:
        """Go on; see `Coroutine`."""
        return self._coroutine.send(value)

    def throw(self, *args: Any) -> Any:
        """Go on with an exception; see `Coroutine`."""
        return self._coroutine.throw(*args)

    def close(self) -> None:
        """Give up; see `Coroutine`."""
        self._coroutine.close()

    @property
    def _hint(self) -> str:
        return (
            f"Write `await client.{self._name}(...)`; where there is no `async def`, take a "
            "blocking client: `with Client(...).sync() as client:`."
        )

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith(("_", "cr_")):  # asyncio and inspect look for these
            raise AttributeError(name)
        raise errors.NotAwaitedError(
            f"{self._name}() was called and not awaited, so it has no {name!r} yet.",
            hint=self._hint,
        )

    def __repr__(self) -> str:
        return f"<{self._name}(...), to be awaited>"


def awaitable(
    method: Callable[P, Coroutine[Any, Any, T]],
) -> Callable[P, Coroutine[Any, Any, T]]:
    """Have an ``async def`` return a `Call`."""

    @functools.wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
        return Call(method(*args, **kwargs), method.__name__)

    return call
