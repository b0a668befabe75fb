"""What a container may have and reach: network, mounts, devices, bounds, and what goes beyond."""

from __future__ import annotations

import contextlib
import socket
import textwrap
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from openenv_gym import errors
from openenv_gym.client import Connection
from openenv_gym.providers import DockerProvider, Mount, Network, Resources, Sandbox
from openenv_gym.providers.docker.hardening import ContainerLimits, container_options
from tests.providers.docker.conftest import Attack, MakeServer
from tests.support.images import python_image
from tests.support.waiting import eventually


pytestmark = pytest.mark.container


def _host_config(docker: Any, server: Any) -> dict[str, Any]:
    facts: dict[str, Any] = docker.api.inspect_container(server.container_id)
    return {**facts["HostConfig"], "Env": facts["Config"]["Env"]}


# -- network ----------------------------------------------------------------------------------

PROXY = """
import os, socket
def ask(target):
    host, port = os.environ["HTTPS_PROXY"].removeprefix("http://").split(":")
    sock = socket.create_connection((host, int(port)), 20)
    sock.settimeout(20)
    sock.sendall(f"CONNECT {target} HTTP/1.1\\r\\n\\r\\n".encode())
    answer = sock.recv(1000).decode()
    if " 200 " in answer:
        sock.sendall(b"hello")
        answer += sock.recv(1000).decode()
    return answer
"""


@pytest.fixture
def upstream() -> Iterator[int]:
    """Return the port of a service of this machine that answers HELLO once to each."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            with sock, contextlib.suppress(OSError):
                if sock.recv(100):
                    sock.sendall(b"HELLO")

    thread = threading.Thread(target=serve)
    thread.start()
    yield listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


def test_only_to_what_is_listed(docker: Any, attacker: MakeServer, upstream: int) -> None:
    server = attacker(network=[f"127.0.0.1:{upstream}"])
    assert _host_config(docker, server)["NetworkMode"] == "none"
    session = Attack(server)
    assert session.run(PROXY + f"result = ask('127.0.0.1:{upstream}')").endswith("HELLO")
    assert " 403 " in session.run(PROXY + "result = ask('127.0.0.1:1')")
    assert " 403 " in session.run(PROXY + "result = ask('api.example.com:443')")
    interfaces = session.run("result = sorted(name for _, name in socket.if_nameindex())")
    assert interfaces == ["lo"]
    direct = session.run(f"socket.create_connection(('127.0.0.1', {upstream}), 5)")
    assert "Refused" in direct
    (directory,) = [Path(each) for each in _directories(docker, server)]
    server.stop()
    assert not directory.exists()


def _directories(docker: Any, server: Any) -> list[Path]:
    mounts = docker.api.inspect_container(server.container_id)["Mounts"]
    return [Path(each["Source"]).parent for each in mounts]


def test_an_open_network(docker: Any, attacker: MakeServer) -> None:
    server = attacker(network="open")
    assert _host_config(docker, server)["NetworkMode"] == "bridge"
    names = Attack(server).run("import socket\nresult = [n for _, n in socket.if_nameindex()]")
    assert "eth0" in names


@pytest.mark.parametrize(
    ("field", "options"),
    [
        ("network", {"network": "none", "reach": "port"}),
        ("network", {"network": ["a:1"], "reach": "exec"}),
        ("target", {"mounts": [Mount("/tmp", "/tmp")]}),
        ("target", {"mounts": [Mount("/tmp", "/run/openenv/x")]}),
        ("warm", {"warm": -1}),
        ("max_creates", {"max_creates": 0}),
    ],
)
def test_what_contradicts_itself(field: str, options: dict[str, Any]) -> None:
    with pytest.raises(errors.InvalidOptionError) as caught:
        DockerProvider(**options)
    assert caught.value.field == field


# -- mounts, variables, devices, runtime -------------------------------------------------------


def test_directories_volumes_and_variables(
    docker: Any, attacker: MakeServer, tmp_path: Path
) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "a").write_text("from the host")
    out = tmp_path / "out"
    out.mkdir()
    out.chmod(0o777)
    volume = f"openenv-test-{uuid.uuid4().hex}"
    mounts = [
        Mount(str(tmp_path), "/data"),
        Mount(str(out), "/out", read_only=False),
        Mount(volume, "/cache"),
    ]
    server = attacker(mounts=mounts, environment={"GREETING": "good day"})
    try:
        code = """
            import os
            def attempt(path):
                try:
                    open(path, "w").write("from within")
                    return "written"
                except OSError as error:
                    return error.strerror
            result = (open("/data/a").read(), attempt("/data/a"), attempt("/out/b"),
                attempt("/cache/c"), os.environ["GREETING"])
        """
        assert Attack(server).run(textwrap.dedent(code)) == (
            *("from the host", "Read-only file system", "written"),
            *("Read-only file system", "good day"),
        )
        assert (out / "b").read_text() == "from within"
        server.stop()
        docker.volumes.get(volume)  # it is its owner's, and stays
    finally:
        server.stop()
        docker.volumes.get(volume).remove(force=True)


def test_devices_are_asked_for(docker: Any) -> None:
    for gpus, count in ((2, 2), ("all", -1)):
        limits = ContainerLimits.within(Resources(gpus=gpus))  # type: ignore[arg-type]
        container = docker.containers.create(python_image(), ["true"], **container_options(limits))
        try:
            (request,) = container.attrs["HostConfig"]["DeviceRequests"]
            assert (request["Count"], request["Capabilities"]) == (count, [["gpu"]])
        finally:
            container.remove(force=True)


def test_a_machine_without_gpus_says_so(docker: Any, attacker: MakeServer) -> None:
    if "nvidia" in docker.info().get("Runtimes", {}):
        pytest.skip("this machine may have GPUs")
    with pytest.raises(errors.ServerStartError, match="gpu"):
        attacker(resources=Resources(gpus=1))


def test_a_runtime(docker: Any, attacker: MakeServer) -> None:
    server = attacker(runtime="runc")
    assert _host_config(docker, server)["Runtime"] == "runc"
    with pytest.raises(errors.InvalidOptionError, match="this Docker daemon has .*runc") as caught:
        attacker(runtime="no-such-runtime")
    assert caught.value.field == "runtime"


def test_options_of_a_container_without_any() -> None:
    limits = ContainerLimits.within(Resources())
    plain = container_options(limits)
    assert plain["network_mode"] == "none" and plain["mounts"] == []
    assert plain["runtime"] is None and plain["device_requests"] is None
    egress = container_options(limits, sandbox=Sandbox(network=Network.egress("a:1")))
    assert egress["network_mode"] == "none"


# -- bounds --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cls", "resources", "code"),
    [
        (
            errors.OutOfSpaceError,
            {"tmp_bytes": 1 << 20},
            "open('/tmp/big', 'wb').write(bytes(4 << 20))",
        ),
        (errors.OutOfFilesError, {"files": 100}, "held = [open('/dev/null') for _ in range(200)]"),
        (
            errors.OutOfPidsError,
            {"pids": 60},
            """
            import threading, time
            for _ in range(100):
                threading.Thread(target=time.sleep, args=(20,), daemon=True).start()
            """,
        ),
        (
            errors.OutOfPidsError,
            {"pids": 60},
            """
            import os, time
            for _ in range(100):
                if os.fork() == 0:
                    time.sleep(20)
                    os._exit(0)
            """,
        ),
    ],
    ids=["space", "files", "threads", "forks"],
)
def test_each_limit_has_an_error(
    attacker: MakeServer, cls: type[Any], resources: dict[str, Any], code: str
) -> None:
    server = attacker(resources=Resources(**resources))
    connection = Connection(
        server.address,
        {},
        token=server.token,
        why_lost=server.why_lost,
        log_tail=server.log_tail,
        connect_timeout_s=60,
    )
    try:
        connection.call("reset", [None, None])
        connection.call("step", ["print('last words', flush=True)\nloud = True"])
        with pytest.raises(cls, match="ran out of") as caught:
            connection.call("step", [textwrap.dedent(code)])
        assert "last words" in caught.value.log

        def goes_on() -> bool:
            with contextlib.suppress(cls):
                connection.call("step", ["held = None"])
                return True
            return False

        assert eventually(goes_on)  # at the latest when it has more again
    finally:
        connection.close()
