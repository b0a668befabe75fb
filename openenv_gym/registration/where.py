"""Where a server is, or is started: the keyword arguments that say so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple


if TYPE_CHECKING:
    from openenv_gym.providers import Provider
    from openenv_gym.registration.shared import SharedServer

__all__ = ["Where"]


class Where(NamedTuple):
    """Where a server is, or is started, and how long to wait for it.

    Attributes:
        provider: Where the server runs; see `make_env`.
        base_url: Address of a server that runs already.
        ca_file: With `base_url`, certificates (PEM) that are trusted.
        server: What `start_server` returned, to share it.
        allow_unisolated: Run untrusted code where nothing contains it.
        timeout_s: Limit of each request.
        wait_s: How long to wait for a place where the server is full.
    """

    provider: str | Provider | None = None
    base_url: str | None = None
    ca_file: str | None = None
    server: SharedServer | None = None
    allow_unisolated: bool = False
    timeout_s: float = 120.0
    wait_s: float = 0.0

    @classmethod
    def split(cls, options: dict[str, Any]) -> tuple[Where, dict[str, Any]]:
        """Return what some keyword arguments say of this, and those that are left."""
        said = {name: value for name, value in options.items() if name in cls._fields}
        left = {name: value for name, value in options.items() if name not in cls._fields}
        return cls(**said), left
