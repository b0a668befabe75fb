"""Images and servers for the container tests. (`tests/support/images.py` builds the real ones.)"""

from __future__ import annotations

import contextlib
import io
import tarfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from openenv_gym.client import Connection
from openenv_gym.doctor.attack import room
from openenv_gym.providers import DockerProvider, ServerTarget
from openenv_gym.providers.docker import DockerServer
from openenv_gym.providers.docker.daemon import OWNER_LABEL
from openenv_gym.providers.docker.images import BaseImages
from openenv_gym.providers.owner import Owner
from tests.support.images import image


MakeServer = Callable[..., DockerServer]

# What runs in the image of `attacker`: whatever the tests tell it to, with the server's rights.
_ATTACKER = Path(room.__file__).read_text()


CLOSED = """
import ctypes, errno, socket
def closed():
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall(425, 0, None)  # io_uring_setup
    refused = [errno.errorcode[ctypes.get_errno()]]
    try:
        socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)
    except OSError as error:
        refused.append(errno.errorcode[error.errno])
    return refused
"""
"""Code that tells how doors answer which a server closes itself (``--confine``)."""


@pytest.fixture(scope="session")
def attacker_image(docker: Any) -> Iterator[str]:
    """Image whose environment runs the code that it is given, inside the server."""
    base = image("base")
    dockerfile = f"FROM {base}\nCOPY attacker.py /opt/attacker/\nENV PYTHONPATH=/opt/attacker\n"
    with built(docker, {"Dockerfile": dockerfile, "attacker.py": _ATTACKER}) as name:
        yield name


@pytest.fixture(scope="session")
def counting_image(docker: Any) -> Iterator[str]:
    """Image that holds the environments of ``tests/support/worlds.py``."""
    image("echo_env")
    dockerfile = (
        f"FROM {BaseImages().run}\nCOPY worlds.py /opt/worlds/\nENV PYTHONPATH=/opt/worlds\n"
    )
    text = (Path(__file__).parents[2] / "support" / "worlds.py").read_text()
    with built(docker, {"Dockerfile": dockerfile, "worlds.py": text}) as name:
        yield name


@pytest.fixture
def attacker(attacker_image: str) -> Iterator[MakeServer]:
    """Return a function that starts a server which runs given code."""
    servers: list[DockerServer] = []

    def make(*, reach: str = "auto", **sandbox: Any) -> DockerServer:
        provider = DockerProvider(image=attacker_image, build="never", reach=reach, **sandbox)
        server = provider.start(ServerTarget("attacker:app"))
        assert isinstance(server, DockerServer)
        servers.append(server)
        return server

    yield make
    for session in Attack.opened:
        session.connection.close()
    Attack.opened.clear()
    for server in servers:
        server.stop()


class Attack:
    """A session in which Python code runs inside the server's process."""

    opened: list[Attack] = []

    def __init__(self, server: DockerServer, **options: Any) -> None:
        # A container takes as long as it takes to start, which on a busy machine may be long.
        options = {"timeout_s": 60, "connect_timeout_s": 60, **options}
        self.connection = Connection(
            server.address, {}, token=server.token, why_lost=server.why_lost, **options
        )
        self.opened.append(self)
        self.connection.call("reset", [None, None])

    def run(self, code: str, timeout_s: float | None = None) -> Any:
        """Run code; return what it leaves in `result`, or its exception as text."""
        value = self.connection.call("step", [code], timeout_s=timeout_s).value
        return value[4]["result"]


@pytest.fixture
def attack(attacker: MakeServer) -> Attack:
    return Attack(attacker())


def ours(docker: Any) -> set[str]:
    """Return the containers of this process; other tests have some of the same image."""
    found = docker.api.containers(all=True, filters={"label": OWNER_LABEL})
    owner = str(Owner.current())
    return {each["Id"] for each in found if each["Labels"][OWNER_LABEL] == owner}


@contextlib.contextmanager
def built(docker: Any, files: dict[str, str]) -> Iterator[str]:
    """Build an image of this test run's own, and remove it afterwards."""
    name = f"openenv-gym-test:{uuid.uuid4().hex}"
    list(docker.api.build(fileobj=_tar(files), custom_context=True, tag=name, rm=True, decode=True))
    yield name
    docker.images.remove(name, force=True)


def _tar(files: dict[str, str]) -> io.BytesIO:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            tar.addfile(member, io.BytesIO(text.encode()))
    data.seek(0)
    return data
