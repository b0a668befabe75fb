"""What a container started with no option set may do, and what becomes of it."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from openenv_gym import errors
from openenv_gym.client import Connection
from openenv_gym.providers import DockerProvider, Resources, ServerTarget
from openenv_gym.providers.docker import DockerServer
from openenv_gym.providers.docker.hardening import ContainerLimits
from tests.providers.docker.conftest import Attack, MakeServer
from tests.support.engines import containers_there
from tests.support.images import image


pytestmark = pytest.mark.container


def start(package: str, **options: Any) -> DockerServer:
    image(package)
    server = DockerProvider(**options).start(ServerTarget(package))
    assert isinstance(server, DockerServer)
    return server


@pytest.fixture
def echo(docker: Any) -> Any:
    server = start("echo_env")
    yield server
    server.stop()


def test_flags_and_limits_with_no_option_set(docker: Any, echo: DockerServer) -> None:
    found = docker.api.inspect_container(echo.container_id)
    config, host = found["Config"], found["HostConfig"]
    user, _, group = config["User"].partition(":")
    assert user == group
    assert int(user) >= 20_000  # nobody in particular, and another one in each container
    assert host["NetworkMode"] == "none"
    assert host["ReadonlyRootfs"] is True
    assert host["Privileged"] is False
    assert host["CapDrop"] == ["ALL"]
    assert not host["CapAdd"]
    assert host["SecurityOpt"] == ["no-new-privileges:true"]
    assert host["PidsLimit"] >= 256
    assert host["Memory"] == host["MemorySwap"] > 1 << 30
    assert host["NanoCpus"] == (os.cpu_count() or 1) * 10**9
    assert host["ShmSize"] == 1 << 20
    assert host["IpcMode"] == "private"
    assert host["PidMode"] == host["UTSMode"] == ""
    assert host["Init"] is True
    assert {each["Name"]: each["Hard"] for each in host["Ulimits"]} == {"nofile": 4096, "core": 0}
    assert host["LogConfig"]["Config"]["max-size"] == str(5 << 20)
    assert host["RestartPolicy"]["Name"] in ("", "no")
    assert not host["PortBindings"]
    assert not host["Binds"]
    (mount,) = found["Mounts"]
    assert (mount["Destination"], mount["RW"]) == ("/run/openenv", False)
    assert set(host["Tmpfs"]) == {"/tmp"}
    for flag in ("nosuid", "nodev", "noexec", "size=", "nr_inodes="):
        assert flag in host["Tmpfs"]["/tmp"]
    assert config["Labels"]["openenv.owner"].split(":")[0] == str(os.getpid())
    assert not any("key" in entry.lower() or "token" in entry.lower() for entry in config["Env"])


def test_what_the_server_sees_of_itself(attack: Attack) -> None:
    status = attack.run("result = open('/proc/self/status').read()")
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert set(map(int, fields["Uid"].split())) <= set(range(20_000, 60_000))
    assert {fields[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {
        "0" * 16
    }
    assert fields["NoNewPrivs"] == "1"
    assert fields["Seccomp"] == "2"
    assert attack.run("import os; result = os.listdir('/sys/class/net')") == ["lo"]


def test_it_is_removed_with_everything_made_for_it(docker: Any, echo: DockerServer) -> None:
    source = docker.api.inspect_container(echo.container_id)["Mounts"][0]["Source"]
    assert sorted(os.listdir(source)) == ["s", "s.key"]
    with_key = Path(source, "s.key").stat()
    assert with_key.st_size == 32
    Connection(echo.address, {}, connect_timeout_s=60).close()
    assert os.listdir(source) == ["s"]
    echo.stop()
    echo.stop()
    assert not Path(source).parent.exists()
    assert not containers_there(docker, name=echo.container_id)
    lost = echo.why_lost()
    assert isinstance(lost, errors.ServerDiedError)
    assert "was stopped" in str(lost)


@pytest.mark.parametrize("reach", ["socket", "exec", "port"])
def test_each_way_to_reach_it_gives_the_same(docker: Any, reach: str) -> None:
    image("gymnasium")
    local = gymnasium.make("FrozenLake-v1")
    env = gymnasium.make("openenv/FrozenLake-v1", provider=DockerProvider(reach=reach))
    assert env.reset(seed=3) == local.reset(seed=3)
    for _ in range(100):
        action = int(local.np_random.integers(4))
        env.unwrapped.np_random.integers(4)
        here, there = local.step(action), env.step(action)
        assert here == there
        if here[2]:
            local.reset()
            env.reset()
    env.close()
    local.close()


@pytest.mark.parametrize(("reach", "network"), [("exec", "none"), ("port", "bridge")])
def test_only_a_port_costs_the_isolation_from_the_network(
    docker: Any, reach: str, network: str
) -> None:
    server = start("echo_env", reach=reach)
    try:
        found = docker.api.inspect_container(server.container_id)
        assert found["HostConfig"]["NetworkMode"] == network
        assert found["Mounts"] == []
        for published in (found["NetworkSettings"]["Ports"] or {}).values():
            assert [each["HostIp"] for each in published] == ["127.0.0.1"]
        assert server.token is not None
        assert server.token not in str(found)
        with pytest.raises(errors.UnauthorizedError):
            Connection(server.address, {}, token="guessed", connect_timeout_s=60)
        connection = Connection(server.address, {}, token=server.token, connect_timeout_s=60)
        connection.call("reset", [None, None])
        connection._drop()  # and resumed
        connection.call("step", ["hello"])
        connection.close()
    finally:
        server.stop()


def test_an_unknown_way_to_reach_it() -> None:
    with pytest.raises(errors.InvalidOptionError, match="reach='telnet': expected one of auto"):
        DockerProvider(reach="telnet")


def test_limits_follow_the_servers_and_the_environments() -> None:
    alone = ContainerLimits.within(Resources())
    crowd = ContainerLimits.within(Resources(), num_servers=1000, num_envs=256)
    assert alone.cpus == os.cpu_count()
    assert crowd.cpus == 1.0  # never less than one
    assert crowd.pids >= alone.pids + 256  # a threaded engine starts a thread for each
    assert crowd.memory_bytes > alone.memory_bytes
    asked = ContainerLimits.within(Resources(pids=70, cpus=0.5), num_servers=1000, num_envs=256)
    assert (asked.pids, asked.cpus) == (70, 0.5)
    assert asked.memory_bytes == crowd.memory_bytes


# -- the end of a server --------------------------------------------------------------------------


def test_killed_in_the_middle_of_a_step(docker: Any, attacker: MakeServer) -> None:
    server = attacker()
    session = Attack(server)
    session.run("print('last words', flush=True)")
    container = docker.containers.get(server.container_id)
    killer = threading.Timer(0.5, container.kill)
    killer.start()
    with pytest.raises(errors.ServerDiedError, match=r"(?s)was killed.*last words") as caught:
        session.run("import time; time.sleep(30)")
    killer.join()
    assert caught.value.data["exit_code"] == 137
    assert "last words" in caught.value.log
    with pytest.raises(errors.SessionClosedError, match="was killed"):
        session.run("result = 1")


def test_out_of_memory_in_the_middle_of_a_step(attacker: MakeServer) -> None:
    server = attacker(resources=Resources(memory_bytes=128 << 20))
    session = Attack(server)
    session.run("print('last words', flush=True)")
    with pytest.raises(errors.ServerOutOfMemoryError, match=r"(?s)ran out of memory.*last words"):
        session.run("x = bytearray(1 << 20) * 1024")


def test_out_of_memory_at_start(docker: Any) -> None:
    image("echo_env")
    provider = DockerProvider(resources=Resources(memory_bytes=12 << 20))
    with pytest.raises(errors.ServerOutOfMemoryError, match="memory_bytes"):
        gymnasium.make("openenv/Echo-v0", provider=provider)


def test_a_server_that_ends_at_start_says_why(docker: Any, attacker_image: str) -> None:
    provider = DockerProvider(image=attacker_image, build="never")
    server = provider.start(ServerTarget("no_such_package"))
    try:
        with pytest.raises(errors.ServerDiedError, match=r"(?s)ended with code 1.*no_such_package"):
            Connection(server.address, {}, why_lost=server.why_lost, connect_timeout_s=60)
    finally:
        server.stop()


def test_a_server_that_exits_in_a_step(attacker: MakeServer) -> None:
    session = Attack(attacker())
    with pytest.raises(errors.ServerDiedError, match="ended with code 7"):
        session.run("import os; os._exit(7)")


def test_containers_of_owners_that_are_gone_are_swept(
    docker: Any, attacker_image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For what a guardian left, because it was killed as well."""
    from openenv_gym.providers.docker import daemon
    from openenv_gym.providers.owner import Owner

    # As on another machine: whoever else uses the daemon for the first time sweeps, too.
    monkeypatch.setattr("openenv_gym.providers.owner._place", lambda: f"test:{os.getpid()}")
    place = Owner.current().place
    gone = docker.containers.create(
        attacker_image, "true", labels={daemon.OWNER_LABEL: f"{os.getpid()}:12345:{place}"}
    )
    elsewhere = docker.containers.create(
        attacker_image, "true", labels={daemon.OWNER_LABEL: "1:1:another-boot:pid:[1]"}
    )
    ours = docker.containers.create(
        attacker_image, "true", labels={daemon.OWNER_LABEL: str(Owner.current())}
    )
    try:
        removed = daemon.sweep(docker)
        assert gone.id in removed
        assert ours.id not in removed
        assert elsewhere.id not in removed
    finally:
        for container in (gone, elsewhere, ours):
            with contextlib.suppress(Exception):
                container.remove(force=True)


def test_public_names() -> None:
    from openenv_gym import providers

    assert providers.__all__ == [
        "PROVIDERS",
        "DockerProvider",
        "KubernetesProvider",
        "Mount",
        "Network",
        "ProcessProvider",
        "Provider",
        "Resources",
        "RunningServer",
        "Sandbox",
        "ServerTarget",
        "SwarmProvider",
        "UvProvider",
        "get_provider",
    ]
