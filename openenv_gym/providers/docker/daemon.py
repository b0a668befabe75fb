"""The Docker daemon: finding it, and what its errors mean."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from pathlib import Path
from typing import Any

from openenv_gym import errors


__all__ = [
    "OWNER_LABEL",
    "connect_daemon",
    "daemon_reason",
    "explain",
    "may_answer",
    "owner",
    "sweep",
]

OWNER_LABEL = "openenv.owner"

_DEFAULT_SOCKET = "/var/run/docker.sock"
_HELLO_S = 5  # a daemon that says nothing for so long is none
_TIMEOUT_S = 60

_lock = threading.Lock()
_client: tuple[tuple[int, str], Any] | None = None


def may_answer() -> bool:
    """Tell whether it is worth asking for a daemon; cheap, and imports no client."""
    if os.environ.get("DOCKER_HOST"):
        return True
    return os.path.exists(_DEFAULT_SOCKET)


def connect_daemon() -> Any:
    """Return this process's client of the daemon that ``DOCKER_HOST`` names, or the local one.

    Raises:
        ProviderUnavailableError: No daemon answers, or the package ``docker`` is missing.
        ProviderPermissionError: This user may not use the daemon.
    """
    global _client
    key = (os.getpid(), os.environ.get("DOCKER_HOST", ""))
    with _lock:
        if _client is not None and _client[0] == key:
            return _client[1]
        client = _connect()
        _client = key, client
    with contextlib.suppress(Exception):
        sweep(client)
    return client


def _connect() -> Any:
    try:
        import docker
    except ImportError as error:
        raise errors.ProviderUnavailableError(
            "The Docker provider needs the package docker, which is not installed.",
            hint='Run pip install "openenv-gym[docker]".',
        ) from error
    where = os.environ.get("DOCKER_HOST") or f"unix://{_DEFAULT_SOCKET}"
    client = None
    try:
        if where.startswith("unix://"):
            # Asked in a plain way first: docker-py leaves a socket open when nobody answers.
            with socket.socket(socket.AF_UNIX) as probe:
                probe.connect(where.removeprefix("unix://"))
        client = docker.from_env(timeout=_HELLO_S)
        client.ping()
        client.api.timeout = _TIMEOUT_S
    except Exception as error:
        if client is not None:
            client.close()
        raise _unavailable(where, error) from error
    return client


def _unavailable(where: str, error: BaseException) -> errors.ProviderError:
    cause: BaseException | None = error
    while cause is not None:
        # docker-py wraps what the socket said several times.
        if isinstance(cause, PermissionError) or "Permission denied" in str(cause):
            return errors.ProviderPermissionError(
                f"This user may not use the Docker daemon at {where}.",
                hint="Join the group docker and log in again, or use rootless Docker.",
                data={"host": where},
            )
        cause = cause.__cause__ or cause.__context__
    return errors.ProviderUnavailableError(
        f"No Docker daemon answers at {where}: {daemon_reason(error)}",
        hint='Start it, set DOCKER_HOST, or pass provider="process" to do without isolation.',
        data={"host": where},
    )


def explain(error: BaseException, what: str, image: str) -> errors.ProviderError:
    """Return the error of this library that an error of the daemon amounts to.

    Args:
        error: What docker-py raised.
        what: What was being done, such as ``"start a container of openenv-gym-echo:0.1.0"``.
        image: The image that it was about.
    """
    reason = daemon_reason(error)
    data = {"image": image}
    if "no space left on device" in reason.lower():
        return errors.OutOfDiskError(
            f"Docker cannot {what}: its disk is full. ({reason})",
            hint="Free space where Docker keeps its data, for instance with docker system prune.",
            data=data,
        )
    if "no such image" in reason.lower():
        return errors.ImageNotFoundError(f"There is no image {image} any more.", data=data)
    return errors.ServerStartError(f"Docker cannot {what}: {reason}", data=data)


def daemon_reason(error: BaseException) -> str:
    """Return what the daemon itself said, without docker-py's wrapping, as a sentence."""
    text = str(getattr(error, "explanation", None) or error).strip()
    return text if text.endswith(".") else f"{text}."


# -- containers whose owner is gone, and whose guardian is, too --------------------------------


def owner() -> str:
    """Return what tells this process from every other one, also from later ones of its number."""
    return f"{socket.gethostname()}:{os.getpid()}:{_birth(os.getpid())}"


def sweep(client: Any) -> list[str]:
    """Remove containers of owners on this machine that are gone; return their ids.

    A guardian does it at once; this is for what is left when it was killed as well.
    """
    removed = []
    found = client.api.containers(all=True, filters={"label": OWNER_LABEL}, quiet=False)
    for container in found:
        host, _, rest = str(container["Labels"].get(OWNER_LABEL, "")).partition(":")
        pid, _, birth = rest.partition(":")
        if host != socket.gethostname() or not pid.isdigit() or _birth(int(pid)) == birth:
            continue
        with contextlib.suppress(Exception):
            client.api.remove_container(container["Id"], force=True, v=True)
            removed.append(str(container["Id"]))
    return removed


def _birth(pid: int) -> str:
    """Return when a process began, in clock ticks since boot; "" where it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        # Without /proc nobody can tell whether a number was given to another process.
        return "" if os.path.isdir("/proc/self") else "unknown"
    return "" if fields[0] == "Z" else fields[19]
