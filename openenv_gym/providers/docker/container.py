"""One server in a hardened container: created, reached, watched, removed."""

from __future__ import annotations

import contextlib
import http
import http.client
import os
import secrets
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from enum import Enum
from typing import Any

from openenv_gym import errors
from openenv_gym._version import __version__
from openenv_gym.client import Address, InboundAddress, TcpAddress
from openenv_gym.providers.base import GRACE_S, NEW_ONE, ServerTarget, tail_of
from openenv_gym.providers.docker.admission import DEFAULT_AT_ONCE, creating, removing
from openenv_gym.providers.docker.daemon import (
    MOUNT_POINT,
    OWNER_LABEL,
    daemon_address,
    daemon_reason,
    explain,
    watching,
)
from openenv_gym.providers.docker.hardening import (
    PORT,
    SERVER_PLACE,
    ContainerLimits,
    IsolatedSessions,
    container_options,
)
from openenv_gym.providers.docker.relay import SOCKET_PATH, ExecAddress, close_stream
from openenv_gym.providers.egress import EgressProxy
from openenv_gym.providers.guardian import (
    PROXY_NAME,
    SOCKET_NAME,
    guardian,
    make_mount,
    mount_path,
    remove_mount,
)
from openenv_gym.providers.owner import Owner
from openenv_gym.providers.sandbox import Sandbox


__all__ = ["DockerServer", "Reach"]

_LOG_TAIL_LINES = 40
_TRIES = 20  # to remove what may still be created, 0.05 s apart
_START_S = 60.0
_KILLED = 128 + 9  # exit code of what SIGKILL ended


class Reach(str, Enum):
    """How a server in a container is reached."""

    SOCKET = "socket"
    """It dials a Unix socket of ours, in a directory that it can only read. No network."""
    EXEC = "exec"
    """A program that the daemon runs beside it passes its streams on. No network."""
    PORT = "port"
    """A port on the loopback interface of the daemon's machine. Needs a network."""


class ServerState(Enum):
    """Where a container stands, seen from its owner."""

    STARTING = "starting"
    """The daemon may be creating it, or have created it."""
    RUNNING = "running"
    """It was started; whether it still runs, the daemon knows."""
    STOPPED = "stopped"
    """It was removed."""


class DockerServer:
    """A server in a container of its own.

    Args:
        client: Client of the daemon.
        target: What is to be served.
        image: Image that holds it.
        limits: Bounds of the container.
        reach: How it is to be reached.
        workers: Its worker processes; without effect where each session has one.
        sandbox: What else was asked for.
        max_creates: How many containers may be created at once.
        max_destroys: How many may be removed at once.

    Attributes:
        address: Where it is.
        token: Credential for it; None where only its owner can reach it.

    Raises:
        ServerStartError: The daemon refuses.
        MountError: It cannot mount a directory of this machine.
    """

    def __init__(
        self,
        client: Any,
        target: ServerTarget,
        image: str,
        limits: ContainerLimits,
        reach: Reach,
        *,
        workers: int = 1,
        sandbox: Sandbox | None = None,
        max_creates: int = DEFAULT_AT_ONCE,
        max_destroys: int = DEFAULT_AT_ONCE,
    ) -> None:
        self._workers = workers
        self._sandbox = sandbox or Sandbox()
        self._max_destroys = max_destroys
        self._daemon = daemon_address()
        self._socket_path = SOCKET_PATH
        self._owner_pid = os.getpid()
        # Reentrant: the garbage collector may run a finalizer, which stops, in any line of ours.
        self._lock = threading.RLock()
        self._client = client
        self._api = client.api
        self._image = image
        self._state = ServerState.STARTING
        self._lifeline: Any = None
        self._inbound: InboundAddress | None = None
        self._egress: EgressProxy | None = None
        # What is to be removed has its name before it is made, and is watched from then on.
        self._name = f"openenv-{uuid.uuid4().hex}"
        self._directory = mount_path()
        self._watched = [f"mount:{self._directory}", f"container:{self._name}@{self._daemon}"]
        self.token: str | None = None
        _alive.add(self)
        try:
            with creating(self._daemon, max_creates), self._explained(reach):
                for thing in self._watched[reach is not Reach.SOCKET :]:
                    guardian.watch(thing)
                self._create(target, limits, reach)
                if reach is not Reach.SOCKET:
                    self._open_lifeline()
                self._api.start(self._name)
                self.address: Address = self._address(reach)
            self._state = ServerState.RUNNING
        except BaseException:
            self.stop()
            raise

    @property
    def container_id(self) -> str:
        """Name of the container, by which the daemon finds it."""
        return self._name

    # -- start --------------------------------------------------------------------------------

    def _create(self, target: ServerTarget, limits: ContainerLimits, reach: Reach) -> None:
        command = ["python", "-m", "openenv_gym.server", target.package, "--confine"]
        if target.thread_affinity:
            command.append("--thread-affinity")
        sessions = None
        if target.isolate_sessions:
            sessions = IsolatedSessions.within(limits, target.num_envs)
            command += sessions.arguments(self._sandbox)
        elif self._workers > 1:
            command += ["--workers", str(self._workers)]
        mount = None
        if reach is Reach.SOCKET:
            mount = make_mount(self._directory)
            self._inbound = InboundAddress(
                os.path.join(mount, SOCKET_NAME), f"docker:{self._image}"
            )
            command += ["--dial", f"{MOUNT_POINT}/{SOCKET_NAME}"]
            network = self._sandbox.network
            if network is not None and network.mode == "egress":
                self._egress = EgressProxy(network, os.path.join(mount, PROXY_NAME))
                command += ["--egress", f"{MOUNT_POINT}/{PROXY_NAME}"]
        else:
            self.token = secrets.token_urlsafe(32)
            if sessions is not None:
                self._socket_path = f"{SERVER_PLACE}/openenv.sock"
            where = ["--uds", self._socket_path]
            if reach is Reach.PORT:
                where = ["--host", "0.0.0.0", "--port", str(PORT)]
            command += [*where, "--owner-stdin"]
        self._client.containers.create(
            self._image,
            command,
            name=self._name,
            labels={
                OWNER_LABEL: str(Owner.current()),
                "openenv.environment": target.package,
                "openenv.version": __version__,
            },
            **container_options(
                limits,
                sandbox=self._sandbox,
                mount=mount,
                published=reach is Reach.PORT,
                sessions=sessions,
            ),
        )

    def _open_lifeline(self) -> None:
        """Hold the standard input of the server: the token, and its end when we are gone."""
        self._lifeline = self._api.attach_socket(self._name, params={"stdin": 1, "stream": 1})
        # docker-py returns a file around the socket, or over TLS the socket itself.
        self._lifeline_socket = getattr(self._lifeline, "_sock", self._lifeline)
        self._lifeline_socket.sendall(f"{self.token}\n".encode())

    def _address(self, reach: Reach) -> Address:
        if self._inbound is not None:
            return self._inbound
        if reach is Reach.EXEC:
            return ExecAddress(self._client, self._name, f"docker:{self._image}", self._socket_path)
        ports = self._api.inspect_container(self._name)["NetworkSettings"]["Ports"]
        published = ports[f"{PORT}/tcp"][0]
        host, port = published["HostIp"], int(published["HostPort"])
        self._wait_for(host, port)
        return TcpAddress(host, port)

    def _wait_for(self, host: str, port: int) -> None:
        """Wait until the server itself answers: Docker accepts connections before it does."""
        end_s = time.monotonic() + _START_S
        while True:
            with contextlib.suppress(OSError, http.client.HTTPException):
                connection = http.client.HTTPConnection(host, port, timeout=_START_S)
                with contextlib.closing(connection):
                    connection.request("GET", "/health")
                    if connection.getresponse().status == http.HTTPStatus.OK:
                        return
            if (lost := self.why_lost()) is not None:
                if isinstance(lost, errors.ServerOutOfMemoryError):
                    raise lost
                raise errors.ServerStartError(lost.message, data=lost.data) from lost
            if time.monotonic() > end_s:
                raise errors.ServerStartError(
                    f"The server in the container {self._name} of {self._image} does not answer "
                    f"at {host}:{port}.",
                    data={"log": self.log_tail()},
                )
            time.sleep(0.02)

    @contextlib.contextmanager
    def _explained(self, reach: Reach) -> Iterator[None]:
        try:
            yield
        except errors.OpenEnvGymError:
            raise
        except Exception as error:
            reason = daemon_reason(error)
            if reach is Reach.SOCKET and _speaks_of_mount(reason):
                raise MountError(reason, data={"image": self._image}) from error
            raise explain(error, f"start a container of {self._image}", self._image) from error

    # -- life ---------------------------------------------------------------------------------

    def why_lost(self) -> errors.ConnectionLostError | None:
        """Tell why the server is gone, with its last lines; None while it runs."""
        name = f"The container {self._name} of {self._image}"
        if self._state is ServerState.STOPPED:
            return errors.ServerDiedError(f"{name} was stopped.", hint=NEW_ONE)
        try:
            state = watching(self._client).api.inspect_container(self._name)["State"]
        except Exception as error:
            if _status_of(error) != http.HTTPStatus.NOT_FOUND:
                return None  # the daemon is in trouble, which says nothing about the server
            return errors.ServerDiedError(f"{name} is gone: somebody removed it.", hint=NEW_ONE)
        if state["Running"]:
            return None
        data = {"log": self.log_tail(), "exit_code": state["ExitCode"], "container": self._name}
        if state.get("OOMKilled"):
            return errors.ServerOutOfMemoryError(
                f"{name} ran out of memory and was killed.",
                hint="Give it more: DockerProvider(resources=Resources(memory_bytes=...)).",
                data=data,
            )
        how = f"ended with code {state['ExitCode']}"
        if state["ExitCode"] == _KILLED:
            how = "was killed"
        if state.get("Error"):
            how += f" ({state['Error']})"
        return errors.ServerDiedError(f"{name} {how}.", hint=NEW_ONE, data=data)

    def log_tail(self) -> str:
        """Return the last lines that it wrote."""
        with contextlib.suppress(Exception):
            return tail_of(watching(self._client).api.logs(self._name, tail=_LOG_TAIL_LINES))
        return ""

    def stop(self, grace_s: float = GRACE_S) -> None:
        """Remove the container and everything made for it, at once whatever `grace_s` says.

        Where that fails or is interrupted, another call tries again, and the guardian at the end
        of this process.
        """
        if os.getpid() != self._owner_pid:
            return
        with self._lock:
            if self._state is ServerState.STOPPED:
                return
            self._let_go()
            remove_mount(self._directory)
            with removing(self._daemon, self._max_destroys):
                removed = self._remove()
            if removed:
                self._state = ServerState.STOPPED
        # Without our lock: whoever holds the guardian's may be collecting garbage, and want ours.
        if removed:
            for thing in self._watched:
                guardian.forget(thing)
            _alive.discard(self)

    def _remove(self) -> bool:
        """Remove the container; tell whether it is gone."""
        # An interrupted start may have left a request that the daemon is still at.
        tries = _TRIES if self._state is ServerState.STARTING else 1
        for _ in range(tries):
            try:
                self._api.remove_container(self._name, force=True, v=True)
                return True
            except Exception as error:
                if _status_of(error) not in (http.HTTPStatus.NOT_FOUND, http.HTTPStatus.CONFLICT):
                    return False
                if tries > 1:
                    time.sleep(0.05)
        return True

    def _let_go(self) -> None:
        """Close what tells the server that its owner is there."""
        if self._inbound is not None:
            self._inbound.close()
        if self._egress is not None:
            self._egress.close()
        if self._lifeline is not None:
            with contextlib.suppress(OSError):
                self._lifeline_socket.shutdown(socket.SHUT_RDWR)
            close_stream(self._lifeline)

    def after_fork(self) -> None:
        """In a forked child: do not keep the parent's server alive."""
        if self._inbound is not None:
            self._inbound.after_fork()
        if self._egress is not None:
            self._egress.after_fork()
        if self._lifeline is not None:
            close_stream(self._lifeline)  # no shutdown, which would reach the parent's, too


class MountError(errors.ServerStartError):
    """The daemon cannot mount a directory of this machine: it runs somewhere else."""


def _status_of(error: BaseException) -> int | None:
    """Return the status with which the daemon refused; None where it did not answer."""
    status: int | None = getattr(getattr(error, "response", None), "status_code", None)
    return status


def _speaks_of_mount(reason: str) -> bool:
    return "bind source path does not exist" in reason or "mounts denied" in reason.lower()


_alive: set[DockerServer] = set()


def _after_fork() -> None:
    for server in list(_alive):
        server.after_fork()
    _alive.clear()


os.register_at_fork(after_in_child=_after_fork)
