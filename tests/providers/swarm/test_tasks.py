"""Services and tasks: how confined they are, how they fail, and that nothing is left of them."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from click.testing import CliRunner

from openenv_gym import errors
from openenv_gym.cli.main import main
from openenv_gym.providers import Mount, Resources, ServerTarget, local
from tests.providers.docker.conftest import CLOSED
from tests.providers.swarm.conftest import Inside, MakeServer
from tests.support.waiting import eventually
from tests.testbed.swarm import Swarm


pytestmark = [pytest.mark.swarm, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[3]
MakeProvider = Callable[..., Any]


def container_of(nodes: Swarm) -> Any:
    return nodes.nodes[0].containers.list()[0]


def test_a_task_is_confined(one: Swarm, attacker: MakeServer) -> None:
    server = attacker(
        resources=Resources(
            memory_bytes=256 << 20,
            cpus=0.5,
            pids=100,
            tmp_bytes=4 << 20,
            files=512,
            log_bytes=1 << 20,
        ),
        environment={"COLOUR": "blue"},
        mounts=[Mount("openenv-test-volume", "/data")],
        network="open",
    )
    host = container_of(one).attrs["HostConfig"]
    assert host["Memory"] == 256 << 20
    assert host["NanoCpus"] == 500_000_000
    assert host["PidsLimit"] == 100
    assert host["ReadonlyRootfs"] and host["Init"]
    assert host["CapDrop"] == ["ALL"]
    assert host["LogConfig"]["Config"] == {"max-size": str(1 << 20), "max-file": "1"}
    inside = Inside(server)
    code = """
    import os, re
    status = open('/proc/self/status').read()
    found = dict(re.findall(r'^(CapEff|CapBnd|NoNewPrivs|Seccomp):\\s*(\\w+)$', status, re.M))
    tmp = os.statvfs('/tmp')
    import resource
    def refused(path):
        try:
            open(path, 'w')
        except OSError:
            return True
        return False
    result = {
        **{name: int(value, 16) for name, value in found.items()},
        'uid': os.getuid(),
        'tmp': tmp.f_blocks * tmp.f_frsize,
        'shm': os.statvfs('/dev/shm').f_blocks * os.statvfs('/dev/shm').f_frsize,
        'files': resource.getrlimit(resource.RLIMIT_NOFILE)[1],
        'core': resource.getrlimit(resource.RLIMIT_CORE)[1],
        'refused': refused('/etc/x') and refused('/data/x'),
        'colour': os.environ['COLOUR'],
        'closed': closed(),
    }
    """
    found = inside.run(CLOSED + textwrap.dedent(code))
    assert found.pop("uid") >= 20_000
    assert found == {
        "CapEff": 0,
        "CapBnd": 0,
        "NoNewPrivs": 1,
        "Seccomp": 2,
        "tmp": 4 << 20,
        "shm": 1 << 20,
        "files": 512,
        "core": 0,
        "refused": True,
        "colour": "blue",
        "closed": ["EPERM", "EAFNOSUPPORT"],
    }
    inside.close()
    server.stop()
    volume = one.manager.volumes.get("openenv-test-volume")
    assert eventually(lambda: not one.nodes[0].containers.list(all=True, ignore_removed=True))
    volume.remove()


def test_the_token_is_in_no_place_where_others_look(one: Swarm, attacker: MakeServer) -> None:
    server = attacker()
    assert server.token
    shown = [
        str(container_of(one).attrs),
        str(one.manager.services.list()[0].attrs),
        subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout,
    ]
    assert not any(server.token in each for each in shown)
    code = "import os, sys; result = [os.environ.values(), sys.argv].__repr__()"
    inside = Inside(server)
    assert server.token not in inside.run(code)
    inside.close()
    server.token = "another"
    with pytest.raises(errors.UnauthorizedError):
        Inside(server)


def test_out_of_memory_has_an_error_of_its_own(three: Swarm, attacker: MakeServer) -> None:
    server = attacker(resources=Resources(memory_bytes=128 << 20))
    inside = Inside(server)
    inside.run("print('the last line', flush=True)")
    with pytest.raises(errors.ServerOutOfMemoryError) as caught:
        # Swap is not limited; a machine may have some.
        inside.run("x = []\nwhile True: x.append(b'x' * (1 << 20))")
    assert "the last line" in caught.value.data["log"]
    assert "memory is used up" in caught.value.data["log"]
    inside.close()


def test_a_server_that_dies_tells_its_last_lines(three: Swarm, attacker: MakeServer) -> None:
    inside = Inside(attacker())
    with pytest.raises(
        errors.ServerDiedError, match=r"The task openenv-\w+\.1 on node\d"
    ) as caught:
        inside.run("import os; print('good', 'bye', flush=True); os._exit(3)")
    assert "good bye" in caught.value.data["log"]
    assert caught.value.data["exit_code"] == 3
    inside.close()


def test_what_cannot_start_says_why(one: Swarm, attacker: MakeServer) -> None:
    with pytest.raises(errors.ServerStartError, match=r"exit") as caught:
        attacker(ServerTarget("nothing_of_that_name"))
    assert "nothing_of_that_name" in caught.value.data["log"]
    with pytest.raises(errors.ServerOutOfMemoryError):
        attacker(resources=Resources(memory_bytes=16 << 20))


def test_an_image_that_a_node_lacks_is_named(one: Swarm, provider: MakeProvider) -> None:
    nowhere = provider(image="openenv-gym-nowhere:test")
    with pytest.raises(errors.ImageNotFoundError, match=r"nowhere:test on node1"):
        nowhere.start(ServerTarget("gymnasium"))


def test_where_no_node_has_room(one: Swarm, provider: MakeProvider) -> None:
    huge = provider(resources=Resources(memory_bytes=1 << 50))
    with pytest.raises(errors.ServerStartError, match="no suitable node"):
        huge.start(ServerTarget("gymnasium"))
    nobody = provider(constraints=["node.labels.kind==none"])
    with pytest.raises(errors.ServerStartError, match="no suitable node"):
        nobody.start(ServerTarget("gymnasium"))


def test_servers_that_are_alike_share_a_service(one: Swarm, provider: MakeProvider) -> None:
    same = provider()
    envs = [gymnasium.make("openenv/CartPole-v1", provider=same) for _ in range(3)]
    services = one.manager.services.list()
    assert [each.attrs["Spec"]["Mode"]["Replicated"]["Replicas"] for each in services] == [3]
    envs.pop().close()
    envs.append(gymnasium.make("openenv/CartPole-v1", provider=same))  # takes the task over
    other = gymnasium.make("openenv/CartPole-v1", provider=provider(environment={"A": "b"}))
    services = one.manager.services.list()
    replicas = [each.attrs["Spec"]["Mode"]["Replicated"]["Replicas"] for each in services]
    assert sorted(replicas) == [1, 3]
    for env in (*envs, other):
        env.reset(seed=0)
        env.close()
    assert one.manager.services.list() == one.manager.secrets.list() == []


def test_untrusted_servers_share_nothing(one: Swarm, attacker: MakeServer) -> None:
    untrusted = ServerTarget("attacker:app", untrusted=True)
    with pytest.raises(errors.IsolationError, match="reaches the network"):
        attacker(untrusted)
    servers = [attacker(untrusted, network="open") for _ in range(2)]
    assert len(one.manager.services.list()) == len(one.manager.secrets.list()) == 2
    assert servers[0].token != servers[1].token


OWNER = """
import gymnasium, openenv_gym
from openenv_gym.providers import SwarmProvider

env = gymnasium.make_vec(
    "openenv/CartPole-v1", num_envs=6, num_servers=3, provider=SwarmProvider(image={image!r})
)
env.reset(seed=0)
print("ready", flush=True)
while True:
    env.step(env.action_space.sample())
"""


@contextlib.contextmanager
def trainer(code: str) -> Iterator[subprocess.Popen[str]]:
    """Run a trainer until it is ready, and end it at the latest with the block."""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().strip() == "ready"
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_outlives_its_owner(three: Swarm, swarm_image: str, signum: int) -> None:
    with trainer(OWNER.format(image=swarm_image)) as owner:
        assert len(three.leftovers()) == 5  # a service, a secret, three containers
        owner.send_signal(signum)
        owner.wait(30)
    assert eventually(lambda: not three.leftovers(), 60), three.leftovers()


def test_what_is_left_when_the_guardian_is_killed_as_well(one: Swarm, swarm_image: str) -> None:
    code = OWNER.format(image=swarm_image).replace("num_servers=3", "num_servers=1")

    def command(*words: str) -> Any:
        done = CliRunner().invoke(main, [*words, "--json", "--provider", "swarm"])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    with trainer(code) as owner:
        foreign = one.manager.secrets.create(name="somebody-elses", data=b"x")
        (item,) = command("ps")["items"]
        assert (item["kind"], item["in_use"]) == ("service", True)
        assert item["owner_pid"] == owner.pid
        assert command("clean")["kept"] == [item]
        for each in local.processes("guardian"):
            if each.owner is not None and each.owner.pid == owner.pid:
                os.kill(int(each.name.partition(":")[0]), signal.SIGKILL)
    (item,) = command("ps")["items"]
    assert (item["kind"], item["in_use"]) == ("service", False)
    assert item["detail"] == f"{swarm_image}, 1 task"
    assert command("clean")["removed"] == [item]
    assert command("clean")["removed"] == command("ps")["items"] == []
    assert [each.name for each in one.manager.secrets.list()] == ["somebody-elses"]
    foreign.remove()


def test_the_stack_for_people(one: Swarm, swarm_image: str, monkeypatch: Any) -> None:
    docker = shutil.which("docker")
    if docker is None:
        pytest.skip("the command `docker` is not installed")
    secret = one.manager.secrets.create(name="openenv-token", data=b"a-token\n")
    stack = [docker, "stack"]
    options = ["--resolve-image", "never", "-c", "servers/swarm/stack.yaml", "openenv"]
    environment = {**os.environ, "OPENENV_IMAGE": swarm_image, "PORT": "18000", "MEMORY": "512M"}
    subprocess.run([*stack, "deploy", *options], cwd=ROOT, env=environment, check=True)
    try:
        monkeypatch.setenv("OPENENV_TOKEN", "a-token")
        url = f"http://{one.subnet}.1:18000"
        assert eventually(lambda: _healthy(url), 60)
        env = gymnasium.make_vec("openenv/CartPole-v1", num_envs=2, base_url=url)
        env.reset(seed=0)
        env.close()
        host = container_of(one).attrs["HostConfig"]
        assert (host["Memory"], host["PidsLimit"], host["CapDrop"]) == (512 << 20, 512, ["ALL"])
        assert host["ReadonlyRootfs"] and host["Init"]
    finally:
        subprocess.run([*stack, "rm", "openenv"], cwd=ROOT, env=environment, check=True)
        secret.remove()
        removed = eventually(lambda: not one.nodes[0].containers.list(ignore_removed=True), 60)
        # Its own network, beside the engine's.
        assert removed and eventually(lambda: not one.manager.networks.list(names=["openenv_"]), 30)


def _healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=1) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def test_a_daemon_that_manages_no_swarm(
    three: Swarm, provider: MakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", three.host_of(2))
    with pytest.raises(errors.ProviderUnavailableError, match="is no manager") as caught:
        provider().start(ServerTarget("gymnasium"))
    assert "manager" in str(caught.value.hint)
