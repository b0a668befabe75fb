"""A session with a server that runs given code, and the steps of one beside it."""

from __future__ import annotations

import contextlib
import inspect
import textwrap
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from openenv_gym import errors
from openenv_gym.client import Address, Connection, Loss, not_lost


__all__ = ["Outcome", "Pulse", "Session"]

_START_S = 90.0
_CALL_S = 60.0

# What is not the refusal of an attack is a fault of its own, and told apart.
_WRAPPER = """
import errno as _errno
try:
    result = [*{name}(**{arguments!r}), ""]
except OSError as error:
    result = [False, _errno.errorcode.get(error.errno or 0) or str(error), ""]
except Exception as error:
    result = [False, "", f"{{type(error).__name__}}: {{error}}"]
"""


@dataclass(frozen=True)
class Outcome:
    """What came of an attack.

    Attributes:
        succeeded: It got what it was after.
        detail: What it found, or how it was refused.
        fault: Why it could not be tried; empty where it was.
        error: The exception that the client raised; None where the step returned.
    """

    succeeded: bool
    detail: str
    fault: str = ""
    error: errors.OpenEnvGymError | None = None


class Session:
    """A session with a server that runs given code."""

    def __init__(self, address: Address, token: str | None = None, why_lost: Loss = not_lost):
        self.connection = Connection(
            address,
            {},
            token=token,
            timeout_s=_START_S,
            connect_timeout_s=_START_S,
            wait_s=_START_S,
            why_lost=why_lost,
        )
        self.connection.call("reset", [None, None])

    def run(self, code: str, timeout_s: float = _CALL_S) -> Any:
        """Run code; return what it leaves in ``result``, or its exception as text."""
        return self.connection.call("step", [code], timeout_s=timeout_s).value[4]["result"]

    def call(self, function: Callable[..., Any], **arguments: Any) -> Any:
        """Run a function whose source is sent, and return what it returns."""
        source = textwrap.dedent(inspect.getsource(function))
        return self.run(f"{source}\nresult = {function.__name__}(**{arguments!r})")

    def attack(
        self, function: Callable[..., Any], timeout_s: float = _CALL_S, **arguments: Any
    ) -> Outcome:
        """Run an attack; see `openenv_gym.doctor.attack.attacks`."""
        source = textwrap.dedent(inspect.getsource(function))
        wrapper = _WRAPPER.format(name=function.__name__, arguments=arguments)
        try:
            result = self.run(f"{source}\n{wrapper}", timeout_s)
        except errors.OpenEnvGymError as error:
            return Outcome(False, type(error).__name__, error=error)
        if isinstance(result, str):
            return Outcome(False, "", fault=result)
        succeeded, detail, fault = result
        return Outcome(bool(succeeded), str(detail), str(fault))

    def answers(self, within_s: float = 10.0) -> bool:
        """Tell whether the server still answers."""
        try:
            return bool(self.run("result = 'alive'", within_s) == "alive")
        except errors.OpenEnvGymError:
            return False

    def close(self) -> None:
        """End the session."""
        with contextlib.suppress(errors.OpenEnvGymError):
            self.connection.close()


class Pulse:
    """Steps of a neighbour, one after the other while an attack runs, and the longest of them.

    Attributes:
        worst_s: The longest.
        error: What ended them; None where nothing did.
    """

    def __init__(self, neighbour: Session, every_s: float = 0.02) -> None:
        self.worst_s = 0.0
        self.error: errors.OpenEnvGymError | None = None
        self._neighbour = neighbour
        self._every_s = every_s
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="openenv-pulse", daemon=True)

    def __enter__(self) -> Pulse:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._end.set()
        self._thread.join()

    def _beat(self) -> None:
        while True:
            begin_s = time.monotonic()
            try:
                self._neighbour.run("result = 'alive'")
            except errors.OpenEnvGymError as error:
                self.error = error
                return
            finally:
                self.worst_s = max(self.worst_s, time.monotonic() - begin_s)
            if self._end.wait(self._every_s):
                return
