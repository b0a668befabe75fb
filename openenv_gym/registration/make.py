"""From a catalogue entry to an environment: where `gymnasium.make` arrives."""

from __future__ import annotations

import contextlib
import functools
import os
from typing import TYPE_CHECKING, Any

from openenv_gym import errors
from openenv_gym.registration.bridging import reach


if TYPE_CHECKING:
    from collections.abc import Iterator

    import gymnasium

    from openenv_gym.client import Connection
    from openenv_gym.env import RemoteEnv
    from openenv_gym.providers import Provider, RunningServer
    from openenv_gym.registration.catalogue import CatalogueEntry
    from openenv_gym.registration.shared import SharedServer

__all__ = ["choose_place", "make_env", "open_session", "session_options", "start"]

START_S = 60.0  # a server that starts imports its environment first


def make_env(
    entry: CatalogueEntry,
    /,
    *,
    provider: str | Provider | None = None,
    base_url: str | None = None,
    server: SharedServer | None = None,
    allow_unisolated: bool = False,
    render_mode: str | None = None,
    timeout_s: float = 120.0,
    wait_s: float = 0.0,
    hosted_time_limit: bool = True,
    **options: Any,
) -> gymnasium.Env[Any, Any]:
    """Make the environment of an entry.

    An id that hosts whatever it is told to (``openenv/Gymnasium-v0``, ``openenv/Remote-v0``) has no
    time limit in its spec; that of the hosted environment is applied here.

    Args:
        entry: What the catalogue says of the id.
        provider: Where the server runs: ``"auto"`` (default), ``"docker"``, ``"process"``,
            ``"thread"``, or a provider object. The variable ``OPENENV_PROVIDER`` stands for it
            where it is None.
        base_url: Address of a server that runs already (``http://host:port``,
            ``unix:///path``). The variable ``OPENENV_BASE_URL`` stands for it where it is None
            and no provider is named.
        server: What `start_server` returned, to share it with other environments.
        allow_unisolated: Run an environment that runs untrusted code where nothing contains it.
        render_mode: How to render.
        timeout_s: Limit of each request.
        wait_s: How long to wait for a place where the server is full.
        hosted_time_limit: Apply the hosted environment's time limit where the id has none itself.
            (`gymnasium.make` keeps ``max_episode_steps`` to itself, so that this limit can be
            shortened by it, and lengthened or lifted only together with this option.)
        **options: Options of the environment. With ``openenv/Remote-v0`` and an OpenEnv server
            there are two: ``action_model`` and ``observation_model``, which take the place of what
            the server's schemas say.

    Raises:
        InvalidOptionError: An option is unknown, missing or wrong.
        ProviderError: The server cannot be started.
        IsolationError: The environment runs untrusted code, and nothing would contain it.
        OpenEnvGymError: The session cannot be opened.
    """
    env = _make_remote(
        entry,
        provider=provider,
        base_url=base_url,
        server=server,
        allow_unisolated=allow_unisolated,
        render_mode=render_mode,
        timeout_s=timeout_s,
        wait_s=wait_s,
        **options,
    )
    limit = env.openenv.time_limit
    if limit is None or entry.max_episode_steps is not None or not hosted_time_limit:
        return env
    from gymnasium.wrappers import TimeLimit

    return TimeLimit(env, limit)


def _make_remote(
    entry: CatalogueEntry,
    /,
    *,
    provider: str | Provider | None,
    base_url: str | None,
    server: SharedServer | None,
    allow_unisolated: bool,
    render_mode: str | None,
    timeout_s: float,
    wait_s: float,
    **options: Any,
) -> RemoteEnv:
    recipe = functools.partial(
        _make_again,
        entry.id,
        provider=provider,
        base_url=base_url,
        server=server,
        allow_unisolated=allow_unisolated,
        render_mode=render_mode,
        timeout_s=timeout_s,
        wait_s=wait_s,
        **options,
    )
    human = render_mode == "human"
    options = session_options(entry, render_mode, options)
    place, where = choose_place(provider, base_url, server)
    release = _nothing
    if place == "server":
        connection = where.connect(entry, options, timeout_s=timeout_s, wait_s=wait_s)
    elif place == "base_url":
        connection, release = reach(entry, where, options, timeout_s=timeout_s, wait_s=wait_s)
    else:
        running = start(entry, provider, allow_unisolated=allow_unisolated)
        release = running.stop
        with _stopping(running):
            _import_env()  # while the server starts
        connection = open_session(entry, running, options, timeout_s=timeout_s, wait_s=wait_s)
    try:
        return _import_env()(connection, human=human, release=release, recipe=recipe)
    except BaseException:
        connection.close()
        release()
        raise


def session_options(
    entry: CatalogueEntry, render_mode: str | None, options: dict[str, Any]
) -> dict[str, Any]:
    """Return what a server makes the environment with."""
    options = dict(options)
    if render_mode is not None:
        options["render_mode"] = "rgb_array" if render_mode == "human" else render_mode
    if entry.package == "gymnasium" and entry.hosted is not None:
        options["env_id"] = entry.hosted
    return options


def choose_place(provider: Any, base_url: Any, server: Any) -> tuple[str, Any]:
    """Return which of three arguments says where the server is, and what it says.

    Raises:
        InvalidOptionError: More than one of them does.
    """
    given = {"provider": provider, "base_url": base_url, "server": server}
    if len(named := [name for name, value in given.items() if value is not None]) > 1:
        raise errors.InvalidOptionError(
            f"{' and '.join(named)} each say where the server is; expected one of them.",
            field=named[-1],
        )
    if not named and (url := os.environ.get("OPENENV_BASE_URL")) is not None:
        return "base_url", url
    return (named[0], given[named[0]]) if named else ("provider", None)


def _import_env() -> type[RemoteEnv]:
    """Import what an environment is made of: late, so that `import openenv_gym` stays cheap."""
    from openenv_gym.env import RemoteEnv

    return RemoteEnv


@contextlib.contextmanager
def _stopping(running: RunningServer) -> Iterator[None]:
    """Stop a server where what is done with it fails."""
    try:
        yield
    except BaseException:
        running.stop()
        raise


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


def _make_again(our_id: str, /, **kwargs: Any) -> RemoteEnv:
    """Make an equal environment where a pickle or a copy of the first one arrives."""
    from openenv_gym.registration import lookup

    return _make_remote(lookup(our_id), **kwargs)


def _nothing() -> None:
    """Release nothing: the server is not ours."""
