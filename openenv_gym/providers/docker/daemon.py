"""The Docker daemon: finding it, and what its errors mean."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import socket
import threading
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

from openenv_gym import errors
from openenv_gym.providers.guardian import remove_mount, socket_path
from openenv_gym.providers.owner import Owner


__all__ = [
    "MOUNT_POINT",
    "OWNER_LABEL",
    "connect_daemon",
    "daemon_address",
    "daemon_facts",
    "daemon_reason",
    "explain",
    "labelled",
    "may_answer",
    "remove_labelled",
    "sweep",
    "translated",
    "watching",
]

OWNER_LABEL = "openenv.owner"
MOUNT_POINT = "/run/openenv"
"""Where a container sees its owner's socket."""

_DEFAULT = "unix:///var/run/docker.sock"
_HELLO_S = 5  # a daemon that says nothing for so long is none
_TIMEOUT_S = 60
_WATCH_S = 3
_CONNECTIONS = 32  # kept open for later: as many as there are servers that are started at once

_lock = threading.Lock()
_client: tuple[tuple[int, str], Any] | None = None


def daemon_address() -> str:
    """Return where the daemon is: what ``DOCKER_HOST``, or the `docker` command's context, says.

    Raises:
        ProviderUnavailableError: ``DOCKER_CONTEXT`` names a context that is not there.
    """
    if host := os.environ.get("DOCKER_HOST"):
        return host
    return _context_address() or _DEFAULT


def _context_address() -> str | None:
    """Return the address that the context of the `docker` command names.

    It is kept in ``~/.docker``: Docker Desktop and rootless Docker choose their daemon like this.
    """
    home = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker")
    named = os.environ.get("DOCKER_CONTEXT")
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        name = named or json.loads((home / "config.json").read_text())["currentContext"]
        if name == "default":
            return None
        directory = home / "contexts" / "meta" / hashlib.sha256(name.encode()).hexdigest()
        facts = json.loads((directory / "meta.json").read_text())
        return str(facts["Endpoints"]["docker"]["Host"])
    if named:  # whoever names a daemon means no other one
        raise errors.ProviderUnavailableError(
            f"DOCKER_CONTEXT names {named!r:.80}, and there is no such context in {home}.",
            hint="Name one of `docker context ls`.",
        )
    return None


def may_answer() -> bool:
    """Tell whether it is worth asking for a daemon; cheap, and imports no client.

    Raises:
        ProviderUnavailableError: See `daemon_address`.
    """
    address = daemon_address()
    return not address.startswith("unix:") or os.path.exists(socket_path(address))


def connect_daemon(*, sweeping: bool = True) -> Any:
    """Return this process's client of the daemon.

    Args:
        sweeping: The first time, remove containers of owners that are gone.

    Raises:
        ProviderUnavailableError: No daemon answers, or the package ``docker`` is missing.
        ProviderPermissionError: This user may not use the daemon.
    """
    global _client
    key = (os.getpid(), daemon_address())
    with _lock:
        if _client is not None and _client[0] == key:
            return _client[1]
        client = _connect(key[1])
        _client = key, client
    if sweeping:
        with contextlib.suppress(Exception):
            sweep(client)
    return client


def _connect(address: str) -> Any:
    try:
        import docker
    except ImportError as error:
        raise errors.ProviderUnavailableError(
            "The Docker provider needs the package docker, which is not installed.",
            hint='Run pip install "openenv-gym[docker]".',
        ) from error
    client = None
    try:
        if address.startswith("unix:"):
            # Asked in a plain way first: docker-py leaves a socket open when nobody answers.
            with socket.socket(socket.AF_UNIX) as probe:
                probe.settimeout(_HELLO_S)
                probe.connect(socket_path(address))
        client = _make_client(docker, address, _HELLO_S)
        client.ping()
        client.api.timeout = _TIMEOUT_S
    except Exception as error:
        if client is not None:
            client.close()
        raise _unavailable(address, error) from error
    return client


def _make_client(docker: Any, address: str, timeout_s: float) -> Any:
    # `from_env` also reads what says how to reach a daemon over TLS.
    environment = {**os.environ, "DOCKER_HOST": address}
    client = docker.from_env(timeout=timeout_s, environment=environment, max_pool_size=_CONNECTIONS)
    client.openenv_address = address
    _share_connections(client.api)
    return client


def _share_connections(api: Any) -> None:
    """Have all requests to a Unix socket share the connections that are kept open.

    docker-py keeps them for each path apart, and each container has paths of its own: 25 sockets
    that nobody uses again. And when more are in use at once, as while many servers start, it
    closes the pool of one that another thread was about to use.
    """
    for adapter in list(api.adapters.values()):
        pools = getattr(adapter, "pools", None)
        if pools is None or not hasattr(adapter, "socket_path"):
            continue  # not of this kind: requests' own has one pool for each host
        take = adapter.get_connection

        def get_connection(url: str, proxies: Any = None, take: Any = take) -> Any:
            return take("http+docker://localhost", proxies)

        adapter.get_connection = get_connection


def watching(client: Any) -> Any:
    """Return a client of the same daemon that gives up soon: a step must not wait for it."""
    if not hasattr(client, "openenv_watching"):
        import docker

        # Not where the environment says now that a daemon is: that may be another one.
        client.openenv_watching = _make_client(docker, client.openenv_address, _WATCH_S)
    return client.openenv_watching


def daemon_facts(client: Any) -> dict[str, Any]:
    """Return what the daemon says of itself and its machine (``docker info``), asked once."""
    if not hasattr(client, "openenv_facts"):
        client.openenv_facts = dict(client.info())
    facts: dict[str, Any] = client.openenv_facts
    return facts


def _forget_client() -> None:
    """Have the next one ask for the daemon anew."""
    global _client
    with _lock:
        _client = None


def _after_fork() -> None:
    global _client, _lock
    _lock, _client = threading.Lock(), None  # another thread may have held it


os.register_at_fork(after_in_child=_after_fork)


# -- what its errors mean -------------------------------------------------------------------------


def _unavailable(address: str, error: BaseException) -> errors.ProviderError:
    cause: BaseException | None = error
    while cause is not None:
        # docker-py wraps what the socket said several times.
        if isinstance(cause, PermissionError) or "Permission denied" in str(cause):
            return errors.ProviderPermissionError(
                f"This user may not use the Docker daemon at {address}.",
                hint="Join the group docker and log in again, or use rootless Docker.",
                data={"host": address},
            )
        cause = cause.__cause__ or cause.__context__
    return errors.ProviderUnavailableError(
        f"No Docker daemon answers at {address}: {daemon_reason(error)}",
        hint='Start it, set DOCKER_HOST, or pass provider="process" to do without isolation.',
        data={"host": address},
    )


@contextlib.contextmanager
def translated(what: str, image: str) -> Iterator[None]:
    """Turn whatever docker-py raises into an error of this library; see `explain`."""
    try:
        yield
    except errors.OpenEnvGymError:
        raise
    except Exception as error:
        raise explain(error, what, image) from error


def explain(error: BaseException, what: str, image: str) -> errors.OpenEnvGymError:
    """Return the error of this library that an error of the daemon amounts to.

    Args:
        error: What docker-py raised.
        what: What was being done, such as ``"start a container of openenv-gym-echo:0.1.0"``.
        image: The image that it was about.
    """
    reason = daemon_reason(error)
    data = {"image": image}
    if _is_ours(error):
        return errors.ServerStartError(f"Cannot {what}: {reason}", data=data)
    if "no space left on device" in reason.lower():
        return errors.OutOfDiskError(
            f"Docker cannot {what}: its disk is full. ({reason})",
            hint="Free space where Docker keeps its data, for instance with docker system prune.",
            data=data,
        )
    if "no such image" in reason.lower():
        return errors.ImageNotFoundError(f"There is no image {image} any more.", data=data)
    if "invalid reference format" in reason or "invalid checksum digest" in reason:
        return errors.InvalidOptionError(
            f"image={image!r:.200} is no name of an image: {reason}", field="image", data=data
        )
    if _is_loss(error):
        _forget_client()
        return errors.ProviderUnavailableError(
            f"Docker cannot {what}, its daemon does not answer any more: {reason}", data=data
        )
    return errors.ServerStartError(f"Docker cannot {what}: {reason}", data=data)


def _is_ours(error: BaseException) -> bool:
    """Tell whether this machine has refused, and not the daemon: descriptors, processes, space."""
    # What docker-py raises about its connection is of a class of requests', or of these two.
    plain = type(error).__module__ == "builtins" and isinstance(error, OSError)
    return plain and not isinstance(error, (ConnectionError, TimeoutError))


def _is_loss(error: BaseException) -> bool:
    """Tell whether the connection is at fault: the daemon itself answers with a status."""
    if getattr(error, "response", None) is not None:
        return False
    module = type(error).__module__.partition(".")[0]
    return isinstance(error, OSError) or module in ("requests", "urllib3")


def daemon_reason(error: BaseException) -> str:
    """Return what the daemon itself said, without docker-py's wrapping, as a sentence."""
    text = str(getattr(error, "explanation", None) or error).strip()
    return text if text.endswith(".") else f"{text}."


# -- containers whose owner is gone, and whose guardian is, too ---------------------------------


def sweep(client: Any) -> list[str]:
    """Remove containers of owners on this machine that are gone, with what was made for them.

    A guardian does it at once; this is for what is left when it was killed as well.

    Returns:
        The ids of the containers.
    """
    removed = []
    for container in labelled(client):
        owner = Owner.parse(str(container["Labels"].get(OWNER_LABEL, "")))
        if owner is not None and owner.lives() is False:
            with contextlib.suppress(Exception):
                remove_labelled(client, container)
                removed.append(str(container["Id"]))
    return removed


def labelled(client: Any) -> list[dict[str, Any]]:
    """Return what the daemon knows of each container of this library, whoever made it."""
    return list(client.api.containers(all=True, filters={"label": OWNER_LABEL}, quiet=False))


def remove_labelled(client: Any, container: dict[str, Any]) -> None:
    """Remove a container with what was made for it on this machine.

    One that is gone, or that somebody else is removing, is as good as removed: a guardian, or a
    new owner, may be at it as well.
    """
    try:
        client.api.remove_container(container["Id"], force=True, v=True)
    except Exception as error:
        status = getattr(getattr(error, "response", None), "status_code", None)
        if status not in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
            raise
    for mount in container.get("Mounts", ()):
        if mount.get("Destination") == MOUNT_POINT:
            remove_mount(os.path.dirname(mount["Source"]))
