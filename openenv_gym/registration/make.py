"""From a catalogue entry to an environment: where `gymnasium.make` arrives."""

from __future__ import annotations

import contextlib
import functools
import os
from typing import TYPE_CHECKING, Any

from openenv_gym import errors
from openenv_gym.registration.bridging import reach
from openenv_gym.registration.starting import open_session, start
from openenv_gym.registration.where import Where


if TYPE_CHECKING:
    from collections.abc import Iterator

    import gymnasium

    from openenv_gym.env import RemoteEnv
    from openenv_gym.providers import Provider, RunningServer
    from openenv_gym.registration.catalogue import CatalogueEntry
    from openenv_gym.registration.shared import SharedServer

__all__ = ["choose_place", "make_env", "session_options"]


def make_env(
    entry: CatalogueEntry,
    /,
    *,
    provider: str | Provider | None = None,
    base_url: str | None = None,
    ca_file: str | None = None,
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
        ca_file: With `base_url`, certificates (PEM) that are trusted in place of the system's; the
            variable ``OPENENV_CA_FILE`` stands for it where it is None.
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
    where = Where(provider, base_url, ca_file, server, allow_unisolated, timeout_s, wait_s)
    env = _make_remote(entry, where, render_mode, options)
    limit = env.openenv.time_limit
    if limit is None or entry.max_episode_steps is not None or not hosted_time_limit:
        return env
    from gymnasium.wrappers import TimeLimit

    return TimeLimit(env, limit)


def _make_remote(
    entry: CatalogueEntry, where: Where, render_mode: str | None, options: dict[str, Any]
) -> RemoteEnv:
    recipe = functools.partial(_make_again, entry.id, where, render_mode, options)
    human = render_mode == "human"
    options = session_options(entry, render_mode, options)
    place, found = choose_place(where.provider, where.base_url, where.server, where.ca_file)
    limits: dict[str, Any] = {"timeout_s": where.timeout_s, "wait_s": where.wait_s}
    release = _nothing
    if place == "server":
        connection = found.connect(entry, options, **limits)
    elif place == "base_url":
        connection, release = reach(entry, found, options, ca_file=where.ca_file, **limits)
    else:
        running = start(entry, where.provider, allow_unisolated=where.allow_unisolated)
        release = running.stop
        with _stopping(running):
            _import_env()  # while the server starts
        connection = open_session(entry, running, options, **limits)
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


def choose_place(provider: Any, base_url: Any, server: Any, ca_file: Any = None) -> tuple[str, Any]:
    """Return which of three arguments says where the server is, and what it says.

    Raises:
        InvalidOptionError: More than one of them does; or there is a `ca_file`, and no address for
            it to count at.
    """
    given = {"provider": provider, "base_url": base_url, "server": server}
    if len(named := [name for name, value in given.items() if value is not None]) > 1:
        raise errors.InvalidOptionError(
            f"{' and '.join(named)} each say where the server is; expected one of them.",
            field=named[-1],
        )
    if ca_file is not None and named and base_url is None:
        raise errors.InvalidOptionError(
            f"ca_file={ca_file!r:.80}: only a server at base_url= may have a certificate.",
            field="ca_file",
            hint=f"Leave it away, or {named[0]}=.",
        )
    if not named and (url := os.environ.get("OPENENV_BASE_URL")):
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


def _make_again(
    our_id: str, where: Where, render_mode: str | None, options: dict[str, Any]
) -> RemoteEnv:
    """Make an equal environment where a pickle or a copy of the first one arrives."""
    from openenv_gym.registration import lookup

    return _make_remote(lookup(our_id), where, render_mode, options)


def _nothing() -> None:
    """Release nothing: the server is not ours."""
