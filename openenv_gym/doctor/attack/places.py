"""Containers in which attacks run: hardened ones as the provider makes them, and others to compare.

An attack that is refused shows something only where the same attack succeeds elsewhere: in a
container that was started without any of our flags, or, where Docker's own defaults refuse it,
in one that has every capability, root, no seccomp profile and the daemon's socket.
"""

from __future__ import annotations

import contextlib
import secrets
import tempfile
import time
import uuid
from abc import ABC, abstractmethod
from typing import Any

from openenv_gym import errors
from openenv_gym.doctor.attack.room import ROOM
from openenv_gym.doctor.attack.session import Session
from openenv_gym.providers import DockerProvider, ServerTarget
from openenv_gym.providers.base import tail_of
from openenv_gym.providers.docker import DockerServer
from openenv_gym.providers.docker.daemon import MOUNT_POINT, OWNER_LABEL, daemon_address
from openenv_gym.providers.docker.hardening import ContainerLimits
from openenv_gym.providers.docker.relay import SOCKET_PATH, ExecAddress
from openenv_gym.providers.guardian import guardian
from openenv_gym.providers.owner import Owner
from openenv_gym.providers.sandbox import Resources


__all__ = ["BOUNDS", "Control", "Hardened", "Place"]

_RESOURCES = Resources(
    memory_bytes=512 << 20, cpus=0.5, pids=256, tmp_bytes=16 << 20, files=4096, log_bytes=1 << 20
)
BOUNDS = ContainerLimits.within(_RESOURCES)
"""Bounds of the attacked containers: small ones, which a control container can go beyond."""


class Place(ABC):
    """A container, or two, with a session that attacks and a neighbour.

    Args:
        client: docker-py's client.
        image: Image with this library.

    Attributes:
        name: What tables call it.
        token: What its server's clients must know; None where nothing is secret.
        session: The one that attacks.
        neighbour: The one beside it.
    """

    name: str
    token: str | None = None

    def __init__(self, client: Any, image: str) -> None:
        self.client = client
        self.image = image
        self.session: Session
        self.neighbour: Session

    @abstractmethod
    def open(self) -> Session:
        """Open one more session with the attacked server."""

    @abstractmethod
    def stop(self) -> float:
        """End it all; return how long that took, in seconds."""

    @property
    @abstractmethod
    def container(self) -> str:
        """Name of the container that is attacked."""

    def log_bytes(self) -> int:
        """Return how much of what was written is kept.

        Read to the end: docker-py has no way to close an answer that one stops reading.
        """
        chunks = self.client.api.logs(self.container, stream=True, follow=False)
        return sum(len(chunk) for chunk in chunks)

    def exists(self) -> bool:
        """Tell whether the container runs."""
        return bool(self.client.api.containers(filters={"name": f"^/?{self.container}$"}))


class Hardened(Place):
    """Containers as `DockerProvider` makes them.

    Args:
        client: docker-py's client.
        image: Image with this library.
        shared: The neighbour is a session in the same container; otherwise it has one of its own.
        reach: How the server is reached; see `DockerProvider`.
    """

    def __init__(
        self, client: Any, image: str, *, shared: bool = False, reach: str = "auto"
    ) -> None:
        super().__init__(client, image)
        self.name = "shared" if shared else "own"
        self._provider = DockerProvider(
            image=image, build="never", resources=_RESOURCES, reach=reach
        )
        self._shared = shared
        self._servers: list[DockerServer] = []
        try:
            self.session = self.open()
            self.neighbour = self.open() if shared else self._open_at(self._start())
        except BaseException:
            self.stop()
            raise
        self.token = self._servers[0].token

    def open(self) -> Session:
        """See `Place`."""
        return self._open_at(self._servers[0] if self._servers else self._start())

    def _start(self) -> DockerServer:
        target = ServerTarget(
            ROOM,
            untrusted=True,
            num_envs=3 if self._shared else 1,
            isolate_sessions=self._shared,
        )
        server = self._provider.start(target)
        assert isinstance(server, DockerServer)
        self._servers.append(server)
        return server

    def _open_at(self, server: DockerServer) -> Session:
        return Session(server.address, server.token, server.why_lost)

    @property
    def container(self) -> str:
        """See `Place`."""
        return self._servers[0].container_id

    def stop(self) -> float:
        """See `Place`."""
        begin_s = time.monotonic()
        for server in self._servers:
            server.stop()
        took_s = time.monotonic() - begin_s
        for name in ("session", "neighbour"):
            if session := getattr(self, name, None):
                session.close()
        return took_s


class Control(Place):
    """A container that nothing protects: two workers of one server, with one session each.

    Args:
        client: docker-py's client.
        image: Image with this library.
        everything: Give it all that Docker can give, rather than what ``docker run`` does.
    """

    def __init__(self, client: Any, image: str, *, everything: bool = False) -> None:
        super().__init__(client, image)
        self.name = "everything allowed" if everything else "plain docker run"
        self.token = secrets.token_urlsafe(24)
        self._name = f"openenv-control-{uuid.uuid4().hex}"
        self._watched = f"container:{self._name}@{daemon_address()}"
        self._directory = tempfile.TemporaryDirectory(prefix="openenv-attack-")
        guardian.watch(self._watched)
        try:
            self._start(everything)
            self._address = ExecAddress(client, self._name, f"control:{image}")
            self.session, self.neighbour = self.open(), self.open()
        except BaseException:
            self.stop()
            raise

    def _start(self, everything: bool) -> None:
        options: dict[str, Any] = {}
        if everything:
            local = daemon_address().removeprefix("unix://")
            options = {
                "user": "0",
                "cap_add": ["SYS_ADMIN", "SYS_PTRACE"],  # beyond the defaults
                "security_opt": ["seccomp=unconfined", "apparmor=unconfined"],
                "volumes": [f"{self._directory.name}:{MOUNT_POINT}:rw"],
            }
            if local.startswith("/"):
                options["volumes"].append(f"{local}:/var/run/docker.sock")
        command = ["python", "-m", "openenv_gym.server", ROOM, "--uds", SOCKET_PATH]
        self.client.containers.run(
            self.image,
            [*command, "--workers", "2"],
            name=self._name,
            labels={OWNER_LABEL: str(Owner.current()), "openenv.environment": ROOM},
            environment={"OPENENV_SECRET": self.token},
            detach=True,
            **options,
        )

    def _why_lost(self) -> errors.ConnectionLostError | None:
        if self.exists():
            return None
        log = ""
        with contextlib.suppress(Exception):
            log = tail_of(self.client.api.logs(self._name, tail=20))
        return errors.ServerDiedError(
            f"The control container of {self.image} ended.",
            hint="An image to attack must hold this version of openenv-gym.",
            data={"log": log},
        )

    def open(self) -> Session:
        """See `Place`."""
        return Session(self._address, None, self._why_lost)

    @property
    def container(self) -> str:
        """See `Place`."""
        return self._name

    def stop(self) -> float:
        """See `Place`."""
        begin_s = time.monotonic()
        with contextlib.suppress(Exception):
            self.client.api.remove_container(self._name, force=True, v=True)
        took_s = time.monotonic() - begin_s
        for name in ("session", "neighbour"):
            if session := getattr(self, name, None):
                session.close()
        guardian.forget(self._watched)
        self._directory.cleanup()
        return took_s
