"""Environments with several agents that run somewhere else, as PettingZoo's own classes.

::

    from openenv_gym.pettingzoo import aec_env, join, parallel_env, vector_env

    env = aec_env("pettingzoo.classic.connect_four_v3")  # a server of its own
    env = parallel_env("my_package.games:parallel_env", provider="docker", size=5)
    envs = vector_env("pettingzoo.classic.rps_v2", num_envs=64, num_servers=2)
    seat = join("http://arena:8000", game="friday", agent="player_0", ticket=ticket)

It needs PettingZoo: ``pip install 'openenv-gym[pettingzoo]'``; what is hosted is needed where the
server runs alone. docs/multi_agent.md has more.
"""

from __future__ import annotations

import concurrent.futures
import functools
import secrets
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

from openenv_gym import errors
from openenv_gym.client.link import seconds
from openenv_gym.registration import CatalogueEntry, lookup
from openenv_gym.registration.bridging import reach
from openenv_gym.registration.make import choose_place, session_options
from openenv_gym.registration.starting import open_session, start
from openenv_gym.registration.where import Where


try:
    from openenv_gym.multi_agent import (
        EndReason,
        RemoteAECEnv,
        RemoteParallelEnv,
        RemoteParallelVectorEnv,
        SeatEnv,
    )
    from openenv_gym.multi_agent.vector import Opened
except ModuleNotFoundError as error:
    if error.name != "pettingzoo":
        raise
    raise ModuleNotFoundError(
        "PettingZoo is not installed; run pip install 'openenv-gym[pettingzoo]'.", name=error.name
    ) from error

if TYPE_CHECKING:
    from openenv_gym.client import Connection
    from openenv_gym.providers import Provider
    from openenv_gym.registration.shared import SharedServer

__all__ = [
    "EndReason",
    "RemoteAECEnv",
    "RemoteParallelEnv",
    "RemoteParallelVectorEnv",
    "SeatEnv",
    "aec_env",
    "join",
    "new_ticket",
    "parallel_env",
    "start_server",
    "vector_env",
]

_HOSTED = CatalogueEntry(
    id="openenv/PettingZoo",
    package="pettingzoo_env",
    distribution="openenv-gym-pettingzoo",
    image="openenv-gym-pettingzoo",
)
_WHATEVER = CatalogueEntry(id="openenv/Remote-v0")
_MARGIN_S = 30.0  # what an answer may take beyond the time that others take


def aec_env(
    target: str | None = None, *, render_mode: str | None = None, **options: Any
) -> RemoteAECEnv:
    """Make an environment whose agents act in turn: a true `pettingzoo.AECEnv`.

    A parallel environment is converted on the server, by PettingZoo's `parallel_to_aec`.

    Args:
        target: ``pettingzoo.classic.connect_four_v3`` and the like (a module with ``env`` or
            ``parallel_env``), ``module:attribute``, or one of our ids that has several agents
            (``openenv/ConnectFour-v0``). None: whatever the server at `base_url` serves.
        render_mode: How to render; ``"human"`` shows the environment's RGB frames here.
        **options: ``provider``, ``base_url``, ``ca_file``, ``server``, ``allow_unisolated``,
            ``timeout_s`` and ``wait_s`` say where the server is, or is started, as with
            `gymnasium.make`; the others are what the environment is made with.

    Raises:
        InvalidOptionError: There is no such environment, or it does not take an option.
        ProviderError: The server cannot be started.
        OpenEnvGymError: The session cannot be opened.
    """
    made: RemoteAECEnv = _make(RemoteAECEnv, target, *Where.split(options), render_mode)
    return made


def parallel_env(
    target: str | None = None, *, render_mode: str | None = None, **options: Any
) -> RemoteParallelEnv:
    """Make an environment whose agents act at once: a true `pettingzoo.ParallelEnv`.

    One whose agents act in turn is converted on the server: by PettingZoo's `aec_to_parallel`
    where it says that it can be, and else by `turn_based_aec_to_parallel`, where only the action
    of the agent counts whose turn it is.

    Args:
        target: See `aec_env`, as for the others.
        render_mode: How to render.
        **options: Where the server is, and what the environment is made with.

    Raises:
        InvalidOptionError: There is no such environment, or it does not take an option.
        ProviderError: The server cannot be started.
        OpenEnvGymError: The session cannot be opened.
    """
    made: RemoteParallelEnv = _make(RemoteParallelEnv, target, *Where.split(options), render_mode)
    return made


def vector_env(
    target: str | None = None,
    *,
    num_envs: int,
    num_servers: int = 1,
    render_mode: str | None = None,
    **options: Any,
) -> RemoteParallelVectorEnv:
    """Make many parallel environments that are moved together; see `RemoteParallelVectorEnv`.

    Args:
        target: See `aec_env`, as for the others.
        num_envs: Environments.
        num_servers: Servers to spread them over, evenly; with `base_url` or `server`, sessions to
            open there.
        render_mode: How to render; not ``"human"``.
        **options: Where the servers are, and what the environments are made with.

    Raises:
        InvalidOptionError: There is no such environment, or it does not take an option.
        ProviderError: A server cannot be started.
        OpenEnvGymError: A session cannot be opened.
    """
    for name, value in (("num_envs", num_envs), ("num_servers", num_servers)):
        if type(value) is not int or value < 1:
            raise errors.InvalidOptionError(
                f"{name}={value!r:.40}: expected an integer from 1.", field=name
            )
    if render_mode == "human":
        raise errors.InvalidOptionError(
            'render_mode="human" shows one environment, and this is a vector of them.',
            field="render_mode",
        )
    where, options = Where.split(options)
    num_servers = min(num_servers, num_envs)
    each, more = divmod(num_envs, num_servers)
    sizes = [each + (index < more) for index in range(num_servers)]

    def open_one(size: int) -> Opened:
        wanted = {"api": RemoteParallelEnv.api, "num_envs": size}
        return _open(target, where, options, render_mode, wanted, num_servers=num_servers)

    sessions = _open_at_once(open_one, sizes)
    try:
        return RemoteParallelVectorEnv(sessions, timeout_s=where.timeout_s)
    except BaseException:
        _end(sessions)
        raise


def start_server(
    target: str | None = None, *, provider: str | Provider | None = None
) -> SharedServer:
    """Start a server that several environments share, by ``server=``.

    Args:
        target: One of our ids, for its server; None: a server of any PettingZoo environment.
        provider: Where it runs.

    Raises:
        UnknownEnvironmentError: There is no such id.
        IsolationError: It runs untrusted code.
        ProviderError: The server cannot be started.
    """
    from openenv_gym.registration.shared import SharedServer, start_server

    if target is not None:
        return start_server(target, provider=provider)
    return SharedServer(_HOSTED, start(_HOSTED, provider))


def join(
    base_url: str | None = None,
    target: str | None = None,
    *,
    game: str,
    agent: Hashable,
    ticket: str,
    turn_s: float = 60.0,
    join_s: float = 60.0,
    ca_file: str | None = None,
    server: SharedServer | None = None,
    timeout_s: float | None = None,
    wait_s: float = 0.0,
    **options: Any,
) -> SeatEnv:
    """Play one agent of a game that other clients join as well; see `SeatEnv`.

    Whoever names the same game and the same ticket on the same server plays together. Whoever
    comes first makes the environment, so all players give the same `target`, limits and options.

    Args:
        base_url: Address of the server.
        target: See `aec_env`; None: whatever the server serves.
        game: Name of the game.
        agent: Which agent to play.
        ticket: What the players share and nobody else knows; `new_ticket` makes one.
        turn_s: How long a player may take to act.
        join_s: How long `reset` waits for the others.
        ca_file: Certificates (PEM) that are trusted.
        server: What `openenv_gym.start_server` returned, instead of `base_url`.
        timeout_s: Limit of each request. By default what all players together may take.
        wait_s: How long to wait for a place where the server is full.
        **options: What the environment is made with.

    Raises:
        InvalidOptionError: The seat is taken, there is no such agent, or the game was begun with
            other options.
        CapacityError: The server has no place for another player.
        OpenEnvGymError: The session cannot be opened.
    """
    if base_url is None and server is None:
        raise errors.InvalidOptionError(
            "base_url is missing: players of a game need the same server.", field="base_url"
        )
    turn_s, join_s = seconds("turn_s", turn_s), seconds("join_s", join_s)
    wanted = {
        "api": "seat",
        "game": game,
        "agent": agent,
        "ticket": ticket,
        "turn_s": turn_s,
        "join_s": join_s,
    }
    limit_s = 10 * turn_s + join_s + _MARGIN_S if timeout_s is None else timeout_s
    where = Where(
        base_url=base_url, ca_file=ca_file, server=server, timeout_s=limit_s, wait_s=wait_s
    )
    opened = _open(target, where, options, None, wanted)
    try:
        return SeatEnv(opened.connection, agent, release=opened.release)
    except BaseException:
        _end([opened])
        raise


def new_ticket() -> str:
    """Return a ticket that nobody can guess: 43 characters."""
    return secrets.token_urlsafe(32)


# -- sessions -----------------------------------------------------------------------------------


def _make(
    cls: type[Any],
    target: str | None,
    where: Where,
    options: dict[str, Any],
    render_mode: str | None,
) -> Any:
    recipe = functools.partial(_make, cls, target, where, options, render_mode)
    opened = _open(target, where, options, render_mode, {"api": cls.api})
    try:
        return cls(
            opened.connection,
            human=render_mode == "human",
            release=opened.release,
            recipe=recipe,
        )
    except BaseException:
        _end([opened])
        raise


def _open(
    target: str | None,
    where: Where,
    options: dict[str, Any],
    render_mode: str | None,
    wanted: dict[str, Any],
    *,
    num_servers: int = 1,
) -> Opened:
    """Open a session where it is to be."""
    entry, options = _entry_of(target, options)
    options = session_options(entry, render_mode, options)
    limits: dict[str, Any] = {"timeout_s": where.timeout_s, "wait_s": where.wait_s}
    place, found = choose_place(where.provider, where.base_url, where.server, where.ca_file)
    connection: Connection
    if place == "server":
        return Opened(found.connect(entry, options, multi_agent=wanted, **limits))
    if place == "base_url":
        connection, release = reach(
            entry, found, options, multi_agent=wanted, ca_file=where.ca_file, **limits
        )
        return Opened(connection, release)
    if target is None:
        raise errors.InvalidOptionError(
            "target is missing: name an environment, or the server that has one (base_url=).",
            field="target",
        )
    running = start(
        entry,
        where.provider,
        allow_unisolated=where.allow_unisolated,
        num_servers=num_servers,
        num_envs=wanted.get("num_envs", 1),
    )
    return Opened(open_session(entry, running, options, multi_agent=wanted, **limits), running.stop)


def _entry_of(target: str | None, options: dict[str, Any]) -> tuple[CatalogueEntry, dict[str, Any]]:
    """Return what stands behind a target, and the options with which its server makes it."""
    if target is None:
        return _WHATEVER, options
    if type(target) is not str or not target:
        raise errors.InvalidOptionError(
            f"Expected the name of an environment, got {target!r:.80}.", field="target"
        )
    if target.startswith("openenv/"):
        entry = lookup(target)
        if entry.package is None:
            raise errors.InvalidOptionError(
                f"{entry.id} is whatever a server serves: name its base_url, and no target.",
                field="target",
            )
        return entry, {**entry.kwargs, **options}
    return _HOSTED, {"env_id": target, **options}


def _open_at_once(open_one: Callable[[int], Opened], sizes: Sequence[int]) -> list[Opened]:
    """Open sessions at the same time; where one fails, end the others."""
    with concurrent.futures.ThreadPoolExecutor(len(sizes)) as pool:
        calls = [pool.submit(open_one, size) for size in sizes]
    failures = [error for call in calls if (error := call.exception()) is not None]
    if failures:
        _end([call.result() for call in calls if call.exception() is None])
        raise failures[0]
    return [call.result() for call in calls]


def _end(sessions: Sequence[Opened]) -> None:
    for connection, release in sessions:
        connection.close()
        release()
