"""From what a client asks for to a host."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from openenv_gym.errors import InvalidOptionError
from openenv_gym.server.multi_agent.hosting import as_api
from openenv_gym.server.multi_agent.hosts import AECHost, ParallelHost
from openenv_gym.server.multi_agent.options import AEC, MultiAgentOptions
from openenv_gym.server.multi_agent.seats import Games, SeatHost
from openenv_gym.server.multi_agent.vector import ParallelVectorHost


if TYPE_CHECKING:
    from openenv_gym.server.host import Host

__all__ = ["Maker", "open_multi_agent"]

Maker = Callable[[str], Any]
"""Makes an environment, given the form that is wanted."""


def open_multi_agent(
    make: Maker,
    options: dict[str, Any],
    wanted: MultiAgentOptions,
    games: Games | None,
    *,
    pinned: bool = False,
) -> Host:
    """Make what a multi-agent session holds.

    Args:
        make: Makes an environment of either form.
        options: What it is made with: players of a game must agree on them.
        wanted: What the client asked for.
        games: The shared games of this server; None where its sessions are in several processes.
        pinned: All calls of an environment must come from one thread.

    Raises:
        InvalidOptionError: It cannot be had.
        Exception: Whatever `make` raises.
    """
    if wanted.seat is not None:
        if games is None or pinned:
            why = "whose environment needs one thread" if pinned else "that has several processes"
            raise InvalidOptionError(
                f"A server {why} has no shared games.",
                field="multi_agent",
                hint="Start one without --workers and --isolate-sessions.",
            )
        return SeatHost(games, wanted.seat, options, make)
    made: list[Any] = []
    try:
        for _ in range(wanted.num_envs or 1):
            env = make(wanted.api)
            made.append(env)
            made[-1] = as_api(env, wanted.api)
        if wanted.num_envs is not None:
            return ParallelVectorHost(made)
        return AECHost(made[0]) if wanted.api == AEC else ParallelHost(made[0])
    except BaseException:
        for env in made:
            with contextlib.suppress(Exception):
                env.close()
        raise
