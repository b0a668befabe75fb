"""Starting a server for a catalogue entry, and opening a session on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from openenv_gym import errors


if TYPE_CHECKING:
    from openenv_gym.client import Connection
    from openenv_gym.providers import Provider, RunningServer
    from openenv_gym.registration.catalogue import CatalogueEntry

__all__ = ["START_S", "open_session", "start"]

START_S = 60.0  # a server that starts imports its environment first


def start(
    entry: CatalogueEntry,
    choice: str | Provider | None,
    *,
    allow_unisolated: bool = False,
    num_servers: int = 1,
    num_envs: int = 1,
    isolate_sessions: bool = False,
) -> RunningServer:
    """Start a server for an entry.

    Args:
        entry: What the catalogue says of the id.
        choice: What `provider` is in `make_env`.
        allow_unisolated: See `make_env`.
        num_servers: Servers that share the machine.
        num_envs: Sub-environments that it will hold.
        isolate_sessions: Each of them will be a session, to be kept apart from the others.

    Raises:
        InvalidOptionError: Only a server that runs already can serve it.
        IsolationError: It runs untrusted code, and this provider contains nothing.
        ProviderError: The server cannot be started.
    """
    from openenv_gym.providers import ServerTarget, get_provider

    if entry.package is None:
        raise errors.InvalidOptionError(
            f"{entry.id} connects to a server that runs already, and base_url is missing.",
            field="base_url",
            hint='Pass base_url="http://host:port", or set OPENENV_BASE_URL.',
        )
    provider = get_provider(choice)
    untrusted = entry.untrusted and not allow_unisolated
    if untrusted and not provider.isolates and provider.name != "auto":
        raise errors.IsolationError(
            f"{entry.id} runs code that nobody vouches for, and provider={provider.name!r} "
            "contains nothing of what that code does.",
            hint='Pass provider="docker", or allow_unisolated=True if you know that code.',
        )
    if isolate_sessions and not getattr(provider, "separates_sessions", False):
        raise errors.IsolationError(
            f"{entry.id} runs code that nobody vouches for, and provider={provider.name!r} does "
            "not separate sessions on one server.",
            hint="Leave num_servers= away: then each sub-environment gets a server of its own.",
        )
    return provider.start(
        ServerTarget(
            entry.package,
            image=entry.image,
            untrusted=untrusted,
            thread_affinity=entry.thread_affinity,
            num_servers=num_servers,
            num_envs=num_envs,
            isolate_sessions=isolate_sessions,
            resets_fully=entry.resets_fully,
        )
    )


def open_session(
    entry: CatalogueEntry,
    running: RunningServer,
    options: dict[str, Any],
    *,
    timeout_s: float,
    wait_s: float,
    vector: dict[str, Any] | None = None,
    multi_agent: dict[str, Any] | None = None,
) -> Connection:
    """Open a session on a server that was just started; stop it where that fails.

    Raises:
        ServerStartError: The server ended before it was ready.
        ServerOutOfMemoryError: Likewise, because it wanted too much memory.
        OpenEnvGymError: The session cannot be opened.
    """
    from openenv_gym.client import Connection

    try:
        return Connection(
            running.address,
            options,
            token=running.token,
            vector=vector,
            multi_agent=multi_agent,
            timeout_s=timeout_s,
            wait_s=wait_s,
            connect_timeout_s=START_S,
            why_lost=running.why_lost,
            log_tail=running.log_tail,
        )
    except (errors.ServerUnreachableError, errors.ConnectionLostError) as error:
        lost = error if isinstance(error, errors.ConnectionLostError) else running.why_lost()
        # Before it is stopped, which takes the log with it.
        log = error.data.get("log") or running.log_tail()
        running.stop()
        if isinstance(lost, errors.ServerOutOfMemoryError):
            raise lost from None
        raise errors.ServerStartError(
            f"The server of {entry.id} ended before it was ready: {error.message}",
            data={"log": log},
        ) from error
    except BaseException:
        running.stop()
        raise
