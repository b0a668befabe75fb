"""One server of a vector environment, with its slice of the sub-environments."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from openenv_gym import errors
from openenv_gym.client import Connection
from openenv_gym.providers.base import GRACE_S
from openenv_gym.vector.arguments import ranges


__all__ = ["LOSSES", "Member", "Opened", "check_vector_session", "slices"]

LOSSES = (errors.ConnectionLostError, errors.SessionLostError, errors.SessionClosedError)
"""What is raised where a server is gone, and its sub-environments with it."""


class Opened(NamedTuple):
    """A vector session that was opened.

    Attributes:
        connection: The session.
        release: Called once when it is no longer needed; stops a server of its own. It is told how
            many seconds that server may take.
    """

    connection: Connection
    release: Callable[[float], None] = lambda grace_s: None


class Member:
    """A vector session and what is known of its sub-environments.

    Args:
        opened: The session.
        first: Number of its first sub-environment.
        reopen: Opens another one like it, on a fresh server.

    Attributes:
        connection: The session.
        first: Number of its first sub-environment.
        num_envs: How many it has.
        rows: Which they are within the whole.
        unreported: By index, whether the loss of an earlier server is still to be reported.
        resetting: By index, whether the next step only brings the first observation, or, where
            nothing resets by itself, the next reset.
        over: By index, whether the last step was the end of an episode.
        untold: By index, whether an earlier server was lost between two episodes, which only an
            info is still to tell.
        fresh: Observations and infos of the reset on a fresh server.
    """

    def __init__(
        self, opened: Opened, first: int, reopen: Callable[[], Opened] | None = None
    ) -> None:
        self.connection = opened.connection
        self.first = first
        self.num_envs = check_vector_session(opened.connection)
        self.rows = slice(first, first + self.num_envs)
        self.unreported = np.zeros(self.num_envs, np.bool_)
        self.resetting = np.zeros(self.num_envs, np.bool_)
        self.over = np.zeros(self.num_envs, np.bool_)
        self.untold = np.zeros(self.num_envs, np.bool_)
        self.fresh: tuple[Any, dict[str, Any]] | None = None
        self._release = opened.release
        self._reopen = reopen

    @property
    def indices(self) -> list[int]:
        """Numbers of its sub-environments within the whole."""
        return list(range(self.first, self.first + self.num_envs))

    @property
    def waits_here(self) -> bool:
        """Some sub-environments have something to say that does not come from the server."""
        return self.fresh is not None and bool(self.unreported.any() or self.resetting.any())

    def settle(self, rows: npt.NDArray[np.bool_]) -> None:
        """Forget what was to be said of sub-environments: they are in another episode now."""
        self.unreported[rows] = self.resetting[rows] = self.untold[rows] = self.over[rows] = False

    def name_loss(self, error: errors.OpenEnvGymError) -> errors.OpenEnvGymError:
        """Say in the error that the server is gone whose sub-environments went with it."""
        if "indices" not in error.data:
            error.data["indices"] = self.indices
            error.message = f"Sub-environments {ranges(self.indices)} are lost: {error.message}"
        return error

    def named(self, error: errors.OpenEnvGymError, key: str = "indices") -> list[int]:
        """Return which of its sub-environments an error of its server is about.

        Args:
            error: What it answered; nobody vouches for what is in there.
            key: Of the data that names them.
        """
        told = error.data.get(key)
        mine = self.indices
        return [index for index in told if index in mine] if isinstance(told, list) else []

    def replace(self, why: errors.OpenEnvGymError) -> None:
        """Let a fresh server take the place of one that is gone.

        Raises:
            OpenEnvGymError: `why`, where no other can be had; its cause says what happened.
        """
        self.discard()
        if self._reopen is None:
            raise self.name_loss(why)
        try:
            opened = self._reopen()
        except errors.OpenEnvGymError as error:
            raise self.name_loss(why) from error
        self.connection, self._release = opened
        self.unreported[:] = self.resetting[:] = self.untold[:] = False
        self.fresh = None

    def discard(self, timeout_s: float = 0.0, grace_s: float = GRACE_S) -> None:
        """End the session and its server; safe to repeat.

        Args:
            timeout_s: How long to wait for the server to say that it has ended the session.
            grace_s: How long the server may take to end by itself.
        """
        with contextlib.suppress(errors.OpenEnvGymError):
            self.connection.close(timeout_s)
        release, self._release = self._release, _nothing
        release(grace_s)


def check_vector_session(connection: Connection) -> int:
    """Return how many sub-environments a session has.

    Raises:
        VersionMismatchError: The server does not know vector sessions.
        ProtocolError: It says nothing sensible about them.
    """
    vector = connection.environment.get("vector")
    if vector is None:
        raise errors.VersionMismatchError(
            f"The server at {connection.address} knows no vector sessions.",
            hint="Install a newer openenv-gym there.",
        )
    num_envs = vector.get("num_envs") if isinstance(vector, dict) else None
    if type(num_envs) is not int or num_envs < 1:
        raise errors.ProtocolError(
            f"The server at {connection.address} answered vector={vector!r:.80}, expected num_envs."
        )
    return num_envs


def slices(num_envs: int, num_servers: int) -> Sequence[tuple[int, int]]:
    """Spread sub-environments evenly; return the first one and the number of them per server."""
    each, more = divmod(num_envs, num_servers)
    sizes = [each + (index < more) for index in range(num_servers)]
    return [(sum(sizes[:index]), size) for index, size in enumerate(sizes)]


def _nothing(grace_s: float) -> None:
    """Release nothing."""
