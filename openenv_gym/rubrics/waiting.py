"""Code that may have to wait, written once: it waits where something must be awaited, only then.

A generator yields whatever it wants the value of. Where all of these are plain values, `settle`
runs it to its end and returns what it returns; at the first one that must be awaited, it returns
an awaitable that does the rest. So a container of rubrics need not know whether its parts are
asynchronous, and one whose parts are not works without an event loop.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Generator, Iterable
from typing import Any, TypeVar


__all__ = ["gather", "settle"]

T = TypeVar("T")


def settle(work: Generator[Any, Any, T]) -> T | Awaitable[T]:
    """Run a generator that yields values and awaitables, and gets back the values of both.

    Returns:
        What it returns, or an awaitable of that where it yielded an awaitable.

    Raises:
        BaseException: Whatever it raises.
    """
    try:
        asked = next(work)
        while not inspect.isawaitable(asked):
            asked = work.send(asked)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    return _settle_later(work, asked)


async def _settle_later(work: Generator[Any, Any, T], asked: Any) -> T:
    try:
        while True:
            if not inspect.isawaitable(asked):
                asked = work.send(asked)
                continue
            try:
                value = await asked
            except BaseException as error:
                asked = work.throw(error)
            else:
                asked = work.send(value)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


def gather(values: Iterable[Any]) -> list[Any] | Awaitable[list[Any]]:
    """Return all values, in their order; those that must be awaited are awaited together.

    Args:
        values: Values and awaitables, which are made as they are taken.

    Returns:
        The list, or an awaitable of it where something must be awaited.

    Raises:
        Exception: What making a value raises, at once or when the list is awaited.
    """
    found: list[Any] = []
    waiting = False
    taking = iter(values)
    while True:
        try:
            value = next(taking)
        except StopIteration:
            break
        except Exception as error:
            if not waiting:
                raise
            # Those that wait have begun already, so they are ended in order, by the event loop.
            value = _raise(error)
        found.append(value)
        waiting = waiting or inspect.isawaitable(value)
    return _gather_later(found) if waiting else found


async def _gather_later(values: list[Any]) -> list[Any]:
    tasks = {
        index: asyncio.ensure_future(value)
        for index, value in enumerate(values)
        if inspect.isawaitable(value)
    }
    try:
        await asyncio.gather(*tasks.values())
    except BaseException:
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
        raise
    return [tasks[index].result() if index in tasks else each for index, each in enumerate(values)]


async def _raise(error: Exception) -> None:
    raise error
