"""Sessions on servers that run already: ours, or OpenEnv's behind the bridge."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from openenv_gym import errors
from openenv_gym.credentials import token_of_process


if TYPE_CHECKING:
    from openenv_gym.client import Connection
    from openenv_gym.registration.catalogue import CatalogueEntry

__all__ = ["Reached", "reach"]

_MODELS = ("action_model", "observation_model")
_ANSWER_S = 5.0  # the bridge waits for the server, and then has to say what came of it
_MIN_THREADS, _MAX_THREADS = 64, 1024
_BRIDGED = "openenv/Remote-v0"


class Reached(NamedTuple):
    """A session on a server that runs already.

    Attributes:
        connection: The session.
        release: Called once when it is no longer needed, with the seconds that it may take.
    """

    connection: Connection
    release: Callable[..., None]


def reach(
    entry: CatalogueEntry,
    base_url: str,
    options: dict[str, Any],
    *,
    timeout_s: float,
    wait_s: float,
    vector: dict[str, Any] | None = None,
    multi_agent: dict[str, Any] | None = None,
    ca_file: str | None = None,
) -> Reached:
    """Open a session on a server that runs already.

    One that does not speak our protocol is taken for an OpenEnv server, where the id says nothing
    about what is served: then a bridge in this process speaks OpenEnv's JSON to it.

    Raises:
        InvalidOptionError: An option is not one of the server's.
        SpaceError: There is no space for what an OpenEnv server says of its environment.
        OpenEnvGymError: The session cannot be opened.
    """
    from openenv_gym.client import Connection, parse_base_url

    models = {name: options.pop(name) for name in _MODELS if name in options}
    token = token_of_process()
    if entry.package is None and multi_agent is None:
        how = {
            **models,
            "token": token,
            "ca_file": ca_file,
            "timeout_s": timeout_s,
            "wait_s": wait_s,
        }
        bridged = _bridge(base_url, how, options, vector)
        if bridged is not None:
            return bridged
    for name in models:
        raise errors.InvalidOptionError(
            f"{name}: the server at {base_url} tells its spaces itself.",
            field=name,
            hint="Leave it away.",
        )
    try:
        connection = Connection(
            parse_base_url(base_url, ca_file=ca_file),
            options,
            package=entry.package,
            token=token,
            vector=vector,
            multi_agent=multi_agent,
            timeout_s=timeout_s,
            wait_s=wait_s,
        )
    except errors.OtherProtocolError as error:
        error.hint = (
            f"{entry.id} needs an openenv-gym server. If this is an OpenEnv server: "
            f'gymnasium.make("{_BRIDGED}", base_url={base_url!r}).'
        )
        raise
    return Reached(connection, lambda grace_s=0.0: None)


def _check_options(options: dict[str, Any], base_url: str) -> None:
    for option in options:
        raise errors.InvalidOptionError(
            f"{option}={options[option]!r:.60}: the OpenEnv server at {base_url} decides itself "
            "how its environment is made.",
            field=option,
            hint="Leave it away; what an episode is to be like goes into reset(options={...}).",
        )


def _bridge(
    base_url: str, how: dict[str, Any], options: dict[str, Any], vector: dict[str, Any] | None
) -> Reached | None:
    """Open a session on a bridge to an OpenEnv server; None where the server is one of ours."""
    from openenv_gym.bridge import RemoteServer, bridge_app
    from openenv_gym.client import Connection
    from openenv_gym.providers.thread import ThreadServer
    from openenv_gym.server import Server

    remote = RemoteServer(base_url, **how)
    if not remote.reach():
        return None
    with contextlib.ExitStack() as undo:
        undo.callback(remote.close)
        _check_options(options, base_url)
        num_envs = 1 if vector is None else int(vector["num_envs"])
        threads = min(max(num_envs, _MIN_THREADS), _MAX_THREADS)
        running = ThreadServer(Server(bridge_app(remote), max_threads=threads))
        undo.callback(running.stop)
        connection = Connection(
            running.address,
            {},
            vector=vector,
            timeout_s=how["timeout_s"] + _ANSWER_S,
            wait_s=how["wait_s"],
            why_lost=running.why_lost,
        )
        undo.pop_all()
    return Reached(connection, running.stop)
