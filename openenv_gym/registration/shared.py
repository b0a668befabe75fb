"""One server for several environments."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from openenv_gym import errors
from openenv_gym.registration import lookup
from openenv_gym.registration.starting import START_S, start


if TYPE_CHECKING:
    from types import TracebackType

    from openenv_gym.client import Connection
    from openenv_gym.providers import Provider, RunningServer
    from openenv_gym.registration.catalogue import CatalogueEntry

__all__ = ["SharedServer", "start_server"]


def start_server(env_id: str, *, provider: str | Provider | None = None) -> SharedServer:
    """Start a server that several environments share: ``gymnasium.make(id, server=...)``.

    An environment that runs untrusted code is not shared: each gets a server of its own.

    Args:
        env_id: An id of the environment package, such as ``openenv/Atari-v0``.
        provider: Where it runs; see `gymnasium.make` with our ids.

    Raises:
        UnknownEnvironmentError: There is no such id.
        IsolationError: It runs untrusted code.
        ProviderError: The server cannot be started.
    """
    entry = lookup(env_id)
    _check_trusted(entry)
    return SharedServer(entry, start(entry, provider))


class SharedServer:
    """A server that environments of one package share; ends with `close` or with this process.

    Attributes:
        running: The server, as its provider has it.
    """

    def __init__(self, entry: CatalogueEntry, running: RunningServer) -> None:
        self.running = running
        self._package = entry.package
        self._owner_pid = os.getpid()
        self._closed = False

    def connect(
        self,
        entry: CatalogueEntry,
        options: dict[str, Any],
        *,
        timeout_s: float,
        wait_s: float,
        vector: dict[str, Any] | None = None,
        multi_agent: dict[str, Any] | None = None,
    ) -> Connection:
        """Open a session for an id of the same package.

        Raises:
            IsolationError: The environment runs untrusted code.
            SessionClosedError: The server was closed.
            ForkedSessionError: This is a forked child of the process that started it.
            OpenEnvGymError: The session cannot be opened.
        """
        from openenv_gym.client import Connection

        if os.getpid() != self._owner_pid:
            # Its way to the server was closed by the fork: whoever holds it keeps the server alive.
            raise errors.ForkedSessionError(
                f"This server was started in process {self._owner_pid}, and this is its forked "
                f"child {os.getpid()}.",
                hint="Leave server= away, start one in the child, or share a server's address "
                "with base_url=.",
            )
        _check_trusted(entry)
        if self._closed:
            raise errors.SessionClosedError(
                "This server was closed.", hint="Start another one with start_server()."
            )
        return Connection(
            self.running.address,
            options,
            package=entry.package,
            token=self.running.token,
            vector=vector,
            multi_agent=multi_agent,
            timeout_s=timeout_s,
            wait_s=wait_s,
            connect_timeout_s=START_S,
            why_lost=self.running.why_lost,
            log_tail=self.running.log_tail,
        )

    def close(self) -> None:
        """Stop the server; environments on it end."""
        if not self._closed:
            self._closed = True
            self.running.stop()

    def __enter__(self) -> SharedServer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __deepcopy__(self, memo: dict[int, Any]) -> SharedServer:
        return self  # a copied spec still means this server

    def __reduce__(self) -> Any:
        raise TypeError(
            "A shared server belongs to the process that started it, and cannot be pickled. "
            "Start one in each process, or share a server's address with base_url=."
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._package!r}, {str(self.running.address)!r})"


def _check_trusted(entry: CatalogueEntry) -> None:
    if entry.untrusted:
        raise errors.IsolationError(
            f"{entry.id} runs code that nobody vouches for, so its sessions do not share a server.",
            hint="Leave server= away: each environment gets a server of its own.",
        )
