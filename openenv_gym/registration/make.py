"""From a catalogue entry to an environment: where `gymnasium.make` arrives."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any

from openenv_gym import errors


if TYPE_CHECKING:
    import gymnasium

    from openenv_gym.env import RemoteEnv
    from openenv_gym.providers import Provider
    from openenv_gym.registration.catalogue import CatalogueEntry

__all__ = ["make_env"]

_START_S = 60.0  # a server that starts imports its environment first


def make_env(
    entry: CatalogueEntry,
    /,
    *,
    provider: str | Provider | None = None,
    base_url: str | None = None,
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
        provider: Where the server runs: ``"auto"`` (default), ``"process"``, ``"thread"``, or a
            provider object. The variable ``OPENENV_PROVIDER`` stands for it where it is None.
        base_url: Address of a server that runs already (``http://host:port``,
            ``unix:///path``). The variable ``OPENENV_BASE_URL`` stands for it where it is None
            and no provider is named.
        render_mode: How to render.
        timeout_s: Limit of each request.
        wait_s: How long to wait for a place where the server is full.
        hosted_time_limit: Apply the hosted environment's time limit where the id has none itself.
            (`gymnasium.make` keeps ``max_episode_steps`` to itself, so that this limit can be
            shortened by it, and lengthened or lifted only together with this option.)
        **options: Options of the environment.

    Raises:
        InvalidOptionError: An option is unknown, missing or wrong.
        ServerStartError: The server cannot be started.
        OpenEnvGymError: The session cannot be opened.
    """
    env = _make_remote(
        entry,
        provider=provider,
        base_url=base_url,
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
    render_mode: str | None,
    timeout_s: float,
    wait_s: float,
    **options: Any,
) -> RemoteEnv:
    # Imported here, so that `import openenv_gym` stays cheap for those who only register.
    from openenv_gym.env import RemoteEnv

    recipe = functools.partial(
        _make_again,
        entry.id,
        provider=provider,
        base_url=base_url,
        render_mode=render_mode,
        timeout_s=timeout_s,
        wait_s=wait_s,
        **options,
    )
    human = render_mode == "human"
    if render_mode is not None:
        options["render_mode"] = "rgb_array" if human else render_mode
    if entry.package == "gymnasium" and entry.hosted is not None:
        options["env_id"] = entry.hosted
    if base_url is None and provider is None:
        base_url = os.environ.get("OPENENV_BASE_URL")
    if base_url is not None:
        connection = _connect(entry, base_url, options, timeout_s, wait_s)
        release = _nothing
    else:
        connection, release = _start(entry, provider, options, timeout_s, wait_s)
    try:
        return RemoteEnv(connection, human=human, release=release, recipe=recipe)
    except BaseException:
        connection.close()
        release()
        raise


def _connect(
    entry: CatalogueEntry,
    base_url: str,
    options: dict[str, Any],
    timeout_s: float,
    wait_s: float,
) -> Any:
    from openenv_gym.client import Connection, parse_base_url

    return Connection(
        parse_base_url(base_url),
        options,
        package=entry.package,
        token=os.environ.get("OPENENV_TOKEN"),
        timeout_s=timeout_s,
        wait_s=wait_s,
    )


def _start(
    entry: CatalogueEntry,
    choice: str | Provider | None,
    options: dict[str, Any],
    timeout_s: float,
    wait_s: float,
) -> tuple[Any, Any]:
    from openenv_gym.client import Connection
    from openenv_gym.providers import ServerTarget, get_provider

    if entry.package is None:
        raise errors.InvalidOptionError(
            f"{entry.id} connects to a server that runs already, and base_url is missing.",
            field="base_url",
            hint='Pass base_url="http://host:port", or set OPENENV_BASE_URL.',
        )
    provider = get_provider(choice)
    server = provider.start(
        ServerTarget(
            entry.package,
            image=entry.image,
            untrusted=entry.untrusted,
            thread_affinity=entry.thread_affinity,
        )
    )
    try:
        connection = Connection(
            server.address,
            options,
            timeout_s=timeout_s,
            wait_s=wait_s,
            connect_timeout_s=_START_S,
            why_lost=server.why_lost,
        )
    except (errors.ServerUnreachableError, errors.ConnectionLostError) as error:
        log = server.log_tail()
        server.stop()
        raise errors.ServerStartError(
            f"The server of {entry.id} ended before it was ready.",
            data={"log": log},
        ) from error
    except BaseException:
        server.stop()
        raise
    return connection, server.stop


def _make_again(our_id: str, /, **kwargs: Any) -> RemoteEnv:
    """Make an equal environment where a pickle or a copy of the first one arrives."""
    from openenv_gym.registration import lookup

    return _make_remote(lookup(our_id), **kwargs)


def _nothing() -> None:
    """Release nothing: the server is not ours."""
