"""Which limit an environment has run into."""

from __future__ import annotations

import asyncio
import errno
import pickle
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest

from openenv_gym import errors
from openenv_gym.client import Connection
from openenv_gym.client.async_connection import AsyncConnection
from openenv_gym.providers.thread import ThreadServer
from openenv_gym.server import Server, create_app, exhaustion
from openenv_gym.server.exhaustion import limit_reached


def _raise(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:
        return caught


def _execute_child() -> None:
    """Raise what `subprocess.Popen` does in a function of this name."""
    raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")


def _caught(function: Callable[[], None]) -> BaseException:
    try:
        function()
    except OSError as error:
        return error
    raise AssertionError


@pytest.mark.parametrize(
    ("error", "cls"),
    [
        (OSError(errno.ENOSPC, "No space left"), errors.OutOfSpaceError),
        (OSError(errno.EDQUOT, "Quota"), errors.OutOfSpaceError),
        (OSError(errno.EMFILE, "Too many"), errors.OutOfFilesError),
        (RuntimeError("can't start new thread"), errors.OutOfPidsError),
        (_caught(_execute_child), errors.OutOfPidsError),
        (RuntimeError("something else"), None),
        (OSError(errno.ENOENT, "No such file"), None),
        (_raise(BlockingIOError(errno.EAGAIN, "a socket")), None),
        (ValueError("x"), None),
    ],
)
def test_the_limit_behind_an_exception(
    error: BaseException, cls: type[Any] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exhaustion, "_EVENTS", ())
    found = limit_reached(error)
    assert (None if found is None else type(found)) is cls
    wrapped = _raise(ValueError("wrapped"))
    wrapped.__cause__ = error
    found = limit_reached(wrapped)
    assert (None if found is None else type(found)) is cls


def test_a_fork_that_the_kernel_refused(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    events = tmp_path / "pids.events"
    monkeypatch.setattr(exhaustion, "_EVENTS", (str(events),))
    error = _raise(BlockingIOError(errno.EAGAIN, "fork"))
    events.write_text("max 0\n")
    assert limit_reached(error) is None
    events.write_text("max 3\n")
    assert isinstance(limit_reached(error), errors.OutOfPidsError)


class _Full(gymnasium.Env[Any, Any]):
    observation_space = action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return 0, {}

    def step(self, action: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("vector", [None, {"num_envs": 2, "autoreset_mode": "NextStep"}])
def test_it_arrives_with_the_last_lines(vector: dict[str, Any] | None) -> None:
    server = ThreadServer(Server(create_app(_Full)))
    connection = Connection(
        server.address, {}, vector=vector, log_tail=lambda: "the last lines of a log"
    )
    try:
        connection.call("reset", [None, None])
        action: Any = 1 if vector is None else np.ones(2, np.int64)
        with pytest.raises(errors.OutOfSpaceError, match="No space left") as caught:
            connection.call("step", [action])
        error = caught.value
        assert isinstance(error, errors.EnvironmentFailedError) and isinstance(error, OSError)
        assert error.type_name == "OSError"
        assert error.log == "the last lines of a log" and error.log in str(error)
        assert "tmp_bytes" in str(error.hint)
        assert str(pickle.loads(pickle.dumps(error))) == str(error)
    finally:
        connection.close()
        server.stop()


def test_it_arrives_with_the_last_lines_at_asynchronous_clients_too() -> None:
    server = ThreadServer(Server(create_app(_Full)))

    async def play() -> None:
        connection = await AsyncConnection.open(
            server.address, log_tail=lambda: "the last lines of a log"
        )
        try:
            await connection.request("reset", [None, None])
            with pytest.raises(errors.OutOfSpaceError, match="No space left") as caught:
                await connection.request("step", [1])
            assert caught.value.log == "the last lines of a log"
        finally:
            await connection.close()

    try:
        asyncio.run(play())
    finally:
        server.stop()
