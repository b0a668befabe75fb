"""What a provider makes of refusals, on a daemon that is made up: no real one is needed."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from openenv_gym import errors
from openenv_gym.providers import DockerProvider, ServerTarget, auto
from openenv_gym.providers.docker import container, daemon, provider
from openenv_gym.providers.docker.container import DockerServer, Reach
from openenv_gym.providers.docker.daemon import MOUNT_POINT, OWNER_LABEL, explain
from openenv_gym.providers.docker.hardening import ContainerLimits
from openenv_gym.providers.guardian import make_mount
from openenv_gym.providers.inventory import Item


ITEM = Item("docker", "container", "abc")


@pytest.fixture
def mount(tmp_path: Path) -> Path:
    return Path(make_mount(str(tmp_path / "openenv-0")))


@pytest.fixture
def refuse(mount: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Have the daemon list a container, and refuse to remove it with a status."""
    docker_errors = pytest.importorskip("docker.errors")

    def refuse_with(status: int) -> None:
        def remove_container(*_: Any, **__: Any) -> None:
            response = SimpleNamespace(status_code=status)
            raise docker_errors.APIError("no", response, explanation="not now")

        mounts = [{"Destination": MOUNT_POINT, "Source": str(mount)}]
        container = {"Id": "abcdef", "Labels": {OWNER_LABEL: "1:1:here"}, "Mounts": mounts}
        api = SimpleNamespace(containers=lambda **_: [container], remove_container=remove_container)
        client = SimpleNamespace(api=api)
        monkeypatch.setattr(provider, "connect_daemon", lambda **_: client)

    return refuse_with


@pytest.mark.parametrize("status", [404, 409])
def test_a_container_that_somebody_else_removes_is_removed(
    refuse: Any, mount: Path, status: int
) -> None:
    refuse(status)
    DockerProvider().remove(ITEM)
    assert not mount.parent.exists()


def test_a_daemon_that_refuses_is_told(refuse: Any, mount: Path) -> None:
    refuse(500)
    with pytest.raises(errors.ProviderError, match="remove the container abc: not now"):
        DockerProvider().remove(ITEM)
    assert mount.exists()


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOSPC, errno.EACCES])
def test_what_this_machine_refuses_is_not_the_daemons_fault(
    monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    docker_errors = pytest.importorskip("docker.errors")

    def refuse(outer: str) -> str:
        raise OSError(number, os.strerror(number), outer)

    def is_not_there(*_: Any, **__: Any) -> None:
        raise docker_errors.NotFound("no", SimpleNamespace(status_code=404))

    monkeypatch.setattr(container, "make_mount", refuse)
    monkeypatch.setattr(container, "_TRIES", 1)
    client = SimpleNamespace(api=SimpleNamespace(remove_container=is_not_there))
    target = ServerTarget("echo_env")
    with pytest.raises(errors.ServerStartError) as caught:
        DockerServer(client, target, "echo:1", ContainerLimits(), Reach.SOCKET)
    assert type(caught.value) is errors.ServerStartError
    assert str(caught.value).startswith("Cannot start a container of echo:1: ")
    assert os.strerror(number) in str(caught.value)


def test_a_daemon_that_hangs_up_is_gone() -> None:
    for error in (BrokenPipeError(errno.EPIPE, "gone"), TimeoutError("nothing came")):
        found = explain(error, "start a container", "echo:1")
        assert type(found) is errors.ProviderUnavailableError


class _Daemon(BaseHTTPRequestHandler):
    """As much of a daemon as a client asks for that looks after a container."""

    containers: ClassVar[dict[str, Any]]

    def do_GET(self) -> None:
        found = self.containers.get(self.path.split("/")[-2])
        facts = {"ApiVersion": "1.41"} if self.path.endswith("/version") else found
        body = json.dumps(facts or {"message": "No such container"}).encode()
        self.send_response(200 if facts else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def _daemon(**containers: Any) -> Iterator[str]:
    handler = type("Handler", (_Daemon,), {"containers": containers})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as served:
        thread = threading.Thread(target=served.serve_forever)
        thread.start()
        try:
            yield f"tcp://127.0.0.1:{served.server_port}"
        finally:
            served.shutdown()
            thread.join()


def test_a_container_is_looked_for_at_its_own_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    docker = pytest.importorskip("docker")
    for variable in ("DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH"):
        monkeypatch.delenv(variable, raising=False)
    with _daemon(mine={"State": {"Running": True}}) as first, _daemon() as second:
        client = daemon._make_client(docker, first, 20)
        monkeypatch.setenv("DOCKER_HOST", second)  # for the next server
        watching = daemon.watching(client)
        assert watching.api.inspect_container("mine")["State"]["Running"]
        watching.close()
        client.close()


def test_a_context_that_is_not_there_is_no_other_daemon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.setenv("DOCKER_CONTEXT", "far")
    with pytest.raises(errors.ProviderUnavailableError, match="'far'.*no such context"):
        DockerProvider().inventory()
    chosen, why_not = auto._docker_for(ServerTarget("echo_env"))
    assert chosen is None and "'far'" in why_not
    made = tmp_path / "contexts" / "meta" / hashlib.sha256(b"far").hexdigest()
    made.mkdir(parents=True)
    (made / "meta.json").write_text('{"Endpoints": {"docker": {"Host": "tcp://far:2376"}}}')
    assert daemon.daemon_address() == "tcp://far:2376"
    monkeypatch.setenv("DOCKER_CONTEXT", "default")
    assert daemon.daemon_address() == "unix:///var/run/docker.sock"
