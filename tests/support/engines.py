"""Docker Engines for tests: this machine's, one with a small disk, one that may not be used."""

from __future__ import annotations

import io
import os
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.testbed.engine import DEFAULT_HOST, ping


__all__ = [
    "REQUIRE",
    "SmallEngine",
    "archive_of",
    "containers_there",
    "docker",
    "docker_client",
    "forbidden_daemon",
    "image_of",
    "missing",
    "need_docker",
    "run_as_nobody",
    "small_engine",
]

REQUIRE = "OPENENV_GYM_REQUIRE"  # what must be there, with commas in between: "docker"

TESTBED = Path(__file__).resolve().parents[1] / "testbed"
_START_S = 90.0
_STOP_S = 60.0


def missing(service: str, reason: str) -> NoReturn:
    """Skip the test because a service is missing, or fail it where the service is required."""
    required = os.environ.get(REQUIRE, "").replace(",", " ").split()
    if service in required:
        pytest.fail(f"{REQUIRE} asks for {service}: {reason}", pytrace=False)
    pytest.skip(reason)


# -- this machine's engine ----------------------------------------------------------------------


def need_docker() -> None:
    """Skip the test where no engine can be used, or fail it where one is required."""
    try:
        import docker  # noqa: F401
    except ImportError as error:
        missing("docker", f"docker-py is not installed: {error}")
    host = os.environ.get("DOCKER_HOST") or DEFAULT_HOST
    # Asked in a plain way: docker-py leaves a socket open when nothing answers.
    problem = ping(host)
    if problem is not None:
        missing("docker", f"no Docker Engine can be used on {host}: {problem}")


def docker_client() -> Any:
    """Return docker-py's client of the engine that the environment names; the caller closes it."""
    need_docker()
    import docker

    return docker.from_env(timeout=60)


@pytest.fixture(scope="session")
def docker() -> Iterator[Any]:
    """docker-py's client of this machine's engine; skips where there is none."""
    client = docker_client()
    yield client
    client.close()


def containers_there(client: Any, **filters: Any) -> set[str]:
    """Return the ids of the containers that there are, those that have ended included.

    docker-py asks after each of those that it has listed, and what others remove meanwhile, as in
    tests beside this one, is an error there.

    Args:
        client: docker-py's client.
        filters: As the daemon knows them.
    """
    return {each["Id"] for each in client.api.containers(all=True, filters=filters)}


def image_of(client: Any, name: str, files: Mapping[str, bytes]) -> Any:
    """Make an image that holds some files and nothing else.

    Args:
        client: Client of the engine that gets it.
        name: ``repository:tag``.
        files: Content by path.
    """
    repository, _, tag = name.rpartition(":")
    client.api.import_image_from_data(archive_of(files).getvalue(), repository, tag)
    return client.images.get(name)


def archive_of(files: Mapping[str, bytes]) -> io.BytesIO:
    """Return files as a tar archive: an image's content, or a build's context."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for path, content in files.items():
            member = tarfile.TarInfo(path)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    archive.seek(0)
    return archive


# -- an engine whose disk is soon full ----------------------------------------------------------


@dataclass
class SmallEngine:
    """A second engine, with a disk of its own.

    Attributes:
        host: For ``DOCKER_HOST``.
        client: docker-py's client of it.
        disk: Its disk, as this process can see it.
    """

    host: str
    client: Any
    disk: Path
    _fillings: int = 0

    def copy_image(self, source: Any, name: str) -> Any:
        """Copy an image from another engine; an error of docker-py's where it does not fit.

        Args:
            source: Client of the engine that has it.
            name: ``repository:tag``.
        """
        self.client.images.load(source.images.get(name).save(named=True))
        return self.client.images.get(name)

    def free_bytes(self) -> int:
        """Return what is left on the disk."""
        disk = os.statvfs(self.disk)
        return disk.f_bavail * disk.f_frsize

    def fill(self, leave_bytes: int = 0) -> None:
        """Use the disk up but for so many bytes."""
        size = self.free_bytes() - leave_bytes
        if size > 0:
            self._fillings += 1
            with open(self.disk / f"filling-{self._fillings}", "wb") as file:
                os.posix_fallocate(file.fileno(), 0, size)

    def relieve(self) -> None:
        """Take back what `fill` did."""
        for path in self.disk.glob("filling-*"):
            path.unlink()


@contextmanager
def small_engine(size_bytes: int) -> Iterator[SmallEngine]:
    """Run a second Docker Engine on a disk of its own; skips where this user is not root.

    It has no network, so containers on it need ``network_mode="none"``. It ends with the context,
    with this process in whatever way, and after five minutes, and leaves nothing behind.

    Args:
        size_bytes: Size of the disk. An image needs its size three times over while it is loaded.
    """
    if os.geteuid() != 0:
        pytest.skip("only root can start a second Docker Engine")
    if shutil.which("dockerd") is None:
        missing("docker", "dockerd is not installed, which a second Docker Engine needs")
    import docker

    directory = tempfile.mkdtemp(prefix="openenv-small-")
    host = f"unix://{directory}/sock"
    with (
        tempfile.TemporaryFile() as log,
        subprocess.Popen(
            [TESTBED / "small_engine.sh", directory, str(size_bytes)],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C is not meant for it: its input ends
        ) as process,
    ):
        assert process.stdin is not None
        try:
            end_s = time.monotonic() + _START_S
            while ping(host) is not None:
                if process.poll() is not None or time.monotonic() > end_s:
                    log.seek(0)
                    tail = log.read().decode(errors="replace").splitlines()[-10:]
                    missing("docker", "\n".join(["no second Docker Engine starts:", *tail]))
                time.sleep(0.02)
            client = docker.DockerClient(base_url=host, timeout=60)
            try:
                disk = Path(f"/proc/{process.pid}/root{directory}/data")
                yield SmallEngine(host, client, disk)
            finally:
                client.close()
        finally:
            process.stdin.close()
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
            shutil.rmtree(directory, ignore_errors=True)  # in case it could not do so itself


# -- an engine that may not be used -------------------------------------------------------------


@contextmanager
def forbidden_daemon() -> Iterator[str]:
    """Listen on a socket to which nobody may connect; the kernel says ``EACCES`` at once.

    That does not hold for root, who may do everything: let `run_as_nobody` try.

    Returns:
        A value for ``DOCKER_HOST``.
    """
    # In /tmp whatever TMPDIR says: another user must get as far as the socket itself.
    with tempfile.TemporaryDirectory(prefix="openenv-", dir="/tmp") as directory:
        os.chmod(directory, 0o755)
        path = f"{directory}/sock"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            os.chmod(path, 0)
            listener.listen()
            yield f"unix://{path}"


def run_as_nobody(
    code: str, env: Mapping[str, str] | None = None, *, timeout_s: float = 60.0
) -> subprocess.CompletedProcess[str]:
    """Run Python code in the checkout as a user who is neither root nor in the group docker.

    Root becomes such a user; every other one runs it as it is, and may be in the group.

    Args:
        code: What ``python -c`` takes.
        env: Variables to add to this process's.
        timeout_s: Bound of it all.
    """
    command = [sys.executable, "-c", code]
    if os.geteuid() == 0:
        command = [str(TESTBED / "as_user.sh"), "--no-docker", *command]
    return subprocess.run(
        command,
        cwd=TESTBED.parents[1],
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )
