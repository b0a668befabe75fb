"""A server in a process, on an interpreter and with packages of its own; see `venvs`."""

from __future__ import annotations

import os
from typing import Any, ClassVar

from openenv_gym.errors import InvalidOptionError
from openenv_gym.providers import local
from openenv_gym.providers.base import (
    RunningServer,
    ServerTarget,
    check_workers,
    refuse_isolation,
)
from openenv_gym.providers.inventory import Item
from openenv_gym.providers.process import ProcessServer
from openenv_gym.providers.sandbox import Sandbox
from openenv_gym.providers.uv.sources import source_of
from openenv_gym.providers.uv.venvs import interpreter_for


__all__ = ["UvProvider"]


class UvProvider:
    """Starts each server as a process in a virtual environment that uv made from its pyproject.

    So environments whose dependencies or Python versions exclude each other run side by side. The
    virtual environment is made once for each source, interpreter and version of this library.
    Nothing else is isolated: see `ProcessProvider`, whose guarantees hold here as well.

    Args:
        source: Where the environment package is: a directory with a ``pyproject.toml``, or
            ``git+URL[@REVISION]``; by default the source of the package that is installed here.
        python: Interpreter: a version such as ``"3.12"``, or a path; by default one like ours.
        workers: Worker processes of each server, which share its sessions.
        sandbox: `Sandbox`'s keywords; it honours ``environment`` and ``resources.files``.

    Raises:
        InvalidOptionError: One of them does not hold, or cannot be honoured.
    """

    name = "uv"
    isolates = False
    honours: ClassVar[frozenset[str]] = frozenset({"environment", "files"})

    def __init__(
        self,
        source: str | os.PathLike[str] | None = None,
        *,
        python: str | os.PathLike[str] | None = None,
        workers: int = 1,
        **sandbox: Any,
    ) -> None:
        _check_text("source", source)
        _check_text("python", python)
        self._source = source
        self._python = None if python is None else os.fspath(python)
        self._workers = check_workers(workers)
        self._sandbox = Sandbox.of(**sandbox)
        self._sandbox.refuse_unhonoured(self.name, self.honours)

    def start(self, target: ServerTarget) -> RunningServer:
        """Start a server, after making its virtual environment where there is none yet.

        Raises:
            ProviderUnavailableError: There is no uv, or no such interpreter.
            UnknownEnvironmentError: There is no source of the package.
            ServerStartError: uv cannot install it (``log`` holds what it said), or the system
                refuses the process.
        """
        refuse_isolation(target, self.name)
        source = source_of(target.package, self._source)
        python = interpreter_for(source, self._python)
        return ProcessServer(
            target,
            workers=self._workers,
            sandbox=self._sandbox,
            python=python,
            kind=self.name,
        )

    def inventory(self) -> list[Item]:
        """Return the servers in virtual environments on this machine."""
        return local.processes("uv")

    def log(self, item: Item, lines: int) -> str:
        """Return the last lines that a server wrote; see `openenv_gym.providers.local.log`."""
        return local.log(item, lines)

    def remove(self, item: Item) -> None:
        """End a server; see `openenv_gym.providers.local.remove`."""
        local.remove(item)

    def __repr__(self) -> str:
        source = None if self._source is None else str(self._source)
        return (
            f"UvProvider({source!r}, python={self._python!r}, workers={self._workers}, "
            f"sandbox={self._sandbox!r})"
        )


def _check_text(field: str, value: object) -> None:
    if value is not None and (not isinstance(value, (str, os.PathLike)) or not str(value)):
        raise InvalidOptionError(f"{field} is {value!r:.80}, expected text.", field=field)
