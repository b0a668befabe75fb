"""Servers that run already, in a form that can be sent to workers on other machines."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from openenv_gym import errors
from openenv_gym.client import Connection


if TYPE_CHECKING:
    from openenv_gym.client import Address
    from openenv_gym.registration.catalogue import CatalogueEntry

__all__ = ["Site", "site_of"]


@dataclass(frozen=True)
class Site:
    """A server that somebody else has started and watches: ``gymnasium.make_vec(id, server=...)``.

    Attributes:
        address: Where it is.
        token: Credential for it.
    """

    address: Address
    token: str | None = field(repr=False)

    def connect(self, entry: CatalogueEntry, options: dict[str, Any], **how: Any) -> Connection:
        """Open a session, as `SharedServer.connect` does.

        Raises:
            IsolationError: The environment runs untrusted code, which shares no server.
            OpenEnvGymError: The session cannot be opened.
        """
        if entry.untrusted:
            raise errors.IsolationError(
                f"{entry.id} runs code that nobody vouches for, so workers share no server of it.",
                hint='Leave servers= away, and pass provider="docker".',
            )
        return Connection(self.address, options, package=entry.package, token=self.token, **how)


def site_of(server: Any) -> str | Site:
    """Return what workers are told of a server.

    Args:
        server: Its address (``http://host:port``), or what a provider has started, or what
            `start_server` returned.

    Raises:
        InvalidOptionError: It is nothing of that, or only this process can reach it.
    """
    if isinstance(server, str):
        return server
    running = getattr(server, "running", server)
    address = getattr(running, "address", None)
    if address is None:
        raise errors.InvalidOptionError(
            f"servers: {server!r:.80} is neither an address nor a server that runs.",
            field="servers",
        )
    site = Site(address, getattr(running, "token", None))
    try:
        pickle.dumps(site)
    except Exception as error:  # a channel, a lock, a client of a cluster
        raise errors.InvalidOptionError(
            f"servers: only the process that started {address} can reach it.",
            field="servers",
            hint="Leave servers= away, and pass provider=: each worker then starts its own.",
        ) from error
    return site
