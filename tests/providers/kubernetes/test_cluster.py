"""Pods on a real cluster: they come and go, drain, die, and leave nothing behind."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from click.testing import CliRunner
from gymnasium.vector import SyncVectorEnv

import openenv_gym  # noqa: F401  # registers the ids
from openenv_gym import errors
from openenv_gym.cli.main import main
from openenv_gym.client import Connection
from openenv_gym.providers import Resources, ServerTarget
from openenv_gym.providers.kubernetes import lease, objects
from openenv_gym.providers.kubernetes.cluster import Cluster
from openenv_gym.providers.kubernetes.pods import loss_of
from openenv_gym.providers.kubernetes.reach import ForwardAddress, PodAddress
from openenv_gym.providers.kubernetes.server import KubernetesServer
from openenv_gym.providers.owner import Owner
from tests.providers.docker.conftest import CLOSED, Attack
from tests.providers.kubernetes.conftest import MakeServer, leftovers, small, start
from tests.support.cutting import CuttingAddress
from tests.support.waiting import eventually
from tests.vector.rollouts import infos_of, same_for
from tests.vector.worlds import same


pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(400)]


ROLE = Path(__file__).parents[3] / "servers" / "kubernetes" / "rbac" / "role.yaml"


def rollout(provider: Any, steps: int = 200) -> str:
    """Play with four sub-environments on two servers; return the hash of all that was seen."""
    env = gymnasium.make_vec("openenv/CartPole-v1", num_envs=4, num_servers=2, provider=provider)
    digest = hashlib.sha256()

    def add(*arrays: Any) -> None:
        for array in arrays:
            digest.update(np.ascontiguousarray(array).tobytes())

    try:
        print(f"{type(provider).__name__}: {', '.join(places(env))}")
        env.action_space.seed(5)
        add(env.reset(seed=3)[0])
        for _ in range(steps):
            add(*env.step(env.action_space.sample())[:4])
    finally:
        env.close()
    return digest.hexdigest()


def servers_of(env: Any) -> list[Any]:
    return [member._release.__self__ for member in env._fleet.members]


def places(env: Any) -> list[str]:
    return [
        f"{each.pod} on {each.node}" if isinstance(each, KubernetesServer) else str(each.address)
        for each in servers_of(env)
    ]


def connect(server: KubernetesServer, **options: Any) -> Connection:
    return Connection(
        server.address, {}, token=server.token, why_lost=server.why_lost, timeout_s=30, **options
    )


# -- the same as anywhere else --------------------------------------------------------------------


@pytest.mark.parametrize("reach", ["address", "forward"])
def test_a_rollout_is_the_same_as_in_threads(cluster: Cluster, reach: str) -> None:
    found = rollout(small(reach=reach))
    print(f"trajectory through {reach}: {found}")
    assert found == rollout("thread")


def test_where_pods_can_be_reached_no_detour_is_made(cluster: Cluster) -> None:
    server = start(small())
    assert type(server.address) is PodAddress
    server.stop(0.0)
    server = start(small(reach="forward"))
    assert type(server.address) is ForwardAddress
    server.stop(0.0)


@pytest.mark.parametrize("reach", ["address", "forward"])
def test_a_session_is_resumed_at_its_pod(attacker: MakeServer, reach: str) -> None:
    server = attacker(reach=reach)
    wire = CuttingAddress(server.address)
    server.address = wire
    session = Attack(server)
    assert session.run("result = number = 7") == 7
    for _ in range(3):
        wire.cut_up = 0
        assert session.run("number += 1; result = number") > 7
    assert session.run("result = number") == 10
    assert wire.cuts == 3
    session.connection.close()
    wire.close()


# -- pods come and go -----------------------------------------------------------------------------


def test_pods_that_are_alike_share_a_set_that_grows_and_shrinks(cluster: Cluster) -> None:
    provider = small()
    servers = [start(provider) for _ in range(3)]
    [made] = cluster.find("StatefulSet")
    name = made["metadata"]["name"]
    assert [each.pod for each in servers] == [f"{name}-{number}" for number in range(3)]
    assert made["spec"]["replicas"] == 3
    assert len({each.token for each in servers}) == 3

    # One in the middle is replaced by a fresh one, of the same name.
    first = cluster.read("Pod", servers[1].pod)
    servers[1].stop(0.0)
    servers[1] = start(provider)
    again = cluster.read("Pod", servers[1].pod)
    assert first is not None and again is not None
    assert servers[1].pod == first["metadata"]["name"]
    assert again["metadata"]["uid"] != first["metadata"]["uid"]

    servers.pop().stop(0.0)
    [made] = cluster.find("StatefulSet")
    assert made["spec"]["replicas"] == 2
    for server in servers:
        connection = connect(server)
        connection.call("reset", [None, None])
        connection.close()
        server.stop(0.0)
    assert cluster.find("StatefulSet") == []


def test_what_is_made_says_whose_it_is_and_ends_with_the_set(cluster: Cluster) -> None:
    server = start(small())
    [root] = cluster.find("StatefulSet")
    kinds = ("Service", "Secret", "NetworkPolicy", "PodDisruptionBudget")
    for kind in kinds:
        [made] = cluster.find(kind)
        assert made["metadata"]["ownerReferences"][0]["uid"] == root["metadata"]["uid"]
        owner = made["metadata"]["annotations"][objects.OWNER]
        assert owner == root["metadata"]["annotations"][objects.OWNER]
    assert cluster.api_version("PodDisruptionBudget") in ("policy/v1", "policy/v1beta1")
    # As an administrator would: the set alone, and all else goes with it.
    subprocess.run(["kubectl", "delete", "statefulset", root["metadata"]["name"]], check=True)
    assert eventually(lambda: not any(cluster.find(kind) for kind in kinds), 60)
    assert eventually(lambda: server.why_lost() is not None, 60)
    server.stop(0.0)


# -- ends -----------------------------------------------------------------------------------------


def test_a_rollout_goes_on_when_a_pod_is_deleted(cluster: Cluster) -> None:
    dead, others = [2, 3], [0, 1]
    ours = gymnasium.make_vec(
        "openenv/CartPole-v1",
        num_envs=4,
        num_servers=2,
        provider=small(),
        on_failure="restart",
    )
    theirs = SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")] * 4)
    theirs.action_space.seed(5)
    same(ours.reset(seed=1), theirs.reset(seed=1))
    pods = places(ours)
    told: list[int] = []
    last = None
    end_s = time.monotonic() + 120
    number = 0
    while len(told) == 0 or number < told[0] + 100:
        assert time.monotonic() < end_s
        if number == 50:
            cluster.delete("Pod", servers_of(ours)[1].pod)
        actions = theirs.action_space.sample()
        got, expected = ours.step(actions), theirs.step(actions)
        same_for(others, got, expected)
        if not told and "server_restarted" not in got[4]:
            same(got, expected)  # it drains: until then nothing is different
        if "server_restarted" in got[4]:
            told.append(number)
            assert last is not None
            for index in dead:
                assert infos_of(got[4], index)["server_restarted"] == 1
                assert (got[1][index], got[2][index], got[3][index]) == (0, False, True)
                same(got[0][index], last[index])
        last = got[0]
        number += 1
        time.sleep(0.01)
    print(f"before: {', '.join(pods)}; after: {', '.join(places(ours))}; told in step {told}")
    assert len(told) == 1
    # Seeded anew, all are alike again.
    same(ours.reset(seed=9), theirs.reset(seed=9))
    for _ in range(50):
        actions = theirs.action_space.sample()
        same(ours.step(actions), theirs.step(actions))
    ours.close()


def test_a_pod_that_is_to_end_lets_sessions_go_on(cluster: Cluster) -> None:
    server = start(small(drain_s=4.0))
    connection = connect(server)
    connection.call("reset", [None, None])
    begin_s = time.monotonic()
    cluster.delete("Pod", server.pod)
    with pytest.raises(errors.ConnectionLostError) as caught:
        while time.monotonic() < begin_s + 60:
            connection.call("step", ["still here"])
            time.sleep(0.05)
    assert time.monotonic() - begin_s > 3.5  # so long it was told it may
    assert "was deleted" in str(caught.value)
    assert "Stopping; waiting up to 4 s for 1 open session" in caught.value.data["log"]
    server.stop(0.0)


def test_a_deleted_pod_is_noticed_while_nothing_comes(attacker: MakeServer) -> None:
    """Its connection does not end where its node is gone: only the cluster tells."""
    server = attacker()
    session = Attack(server)
    session.run("import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)")
    cluster = server._cluster
    body = {"gracePeriodSeconds": 0}
    cluster._core.delete_namespaced_pod(server.pod, cluster.namespace, body=body)
    with pytest.raises(errors.ServerDiedError, match="was deleted"):
        session.run("import time; time.sleep(60)", timeout_s=50)


def test_out_of_memory_says_so_with_the_last_lines(attacker: MakeServer) -> None:
    server = attacker(resources=Resources(cpus=0.5, memory_bytes=300 << 20))
    session = Attack(server)
    with pytest.raises(errors.ServerOutOfMemoryError) as caught:
        session.run("print('about to take everything', flush=True); x = bytearray(1 << 30)")
    assert "about to take everything" in caught.value.data["log"]
    assert caught.value.data["exit_code"] == 137
    assert server.pod in str(caught.value)
    # Nobody answers in its place, neither now nor when the cluster has started it again.
    assert eventually(lambda: _restarts(server) > 0, 60)
    time.sleep(3)
    with pytest.raises(errors.ServerOutOfMemoryError):
        Attack(server)


def _restarts(server: KubernetesServer) -> int:
    pod = server._cluster.read("Pod", server.pod)
    assert pod is not None
    assert server._one is not None and loss_of(pod, server._one) is not None
    return int(pod["status"]["containerStatuses"][0]["restartCount"])


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_outlives_its_owner(cluster: Cluster, signum: int) -> None:
    script = """
        import time
        from openenv_gym.providers import ServerTarget
        from tests.providers.kubernetes.conftest import small

        provider = small()
        servers = [provider.start(ServerTarget("echo_env")) for _ in range(2)]
        print("ready", flush=True)
        time.sleep(600)
    """
    owner = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True
    )
    with owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "ready\n"
        assert len(cluster.find("Pod")) == 2
        owner.send_signal(signum)

    def left() -> list[str]:
        """Return what nobody has told to end; when a busy node gets to it is another matter."""
        ending = [each for each in cluster.find("Pod") if "deletionTimestamp" in each["metadata"]]
        return sorted(
            {*leftovers(cluster)} - {f"Pod {each['metadata']['name']}" for each in ending}
        )

    assert eventually(lambda: left() == [], 60), left()


def command(*words: str) -> Any:
    """Run ``openenv-gym``, asking this provider only; return what it prints as JSON."""
    done = CliRunner().invoke(main, [*words, "--json", "--provider", "kubernetes"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_ps_and_clean_find_what_is_there(cluster: Cluster) -> None:
    server = start(small())
    [item] = command("ps")["items"]
    assert (item["kind"], item["in_use"], item["owner_pid"]) == ("statefulset", True, os.getpid())
    assert item["name"] == f"{cluster.namespace}/{server.pod.rpartition('-')[0]}"
    assert item["detail"] == "echo_env, 1 pod"
    done = command("clean")
    assert done["removed"] == [] and done["kept"] == [item]
    assert command("clean", "--all")["removed"] == [item]
    assert command("ps")["items"] == []
    assert eventually(lambda: leftovers(cluster) == [], 60), leftovers(cluster)
    assert server.why_lost() is not None
    server.stop(0.0)


def test_what_a_machine_left_that_is_gone(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "RENEW_S", 0.2)
    server = start(small())
    name = server.pod.rpartition("-")[0]

    def annotate(**annotations: str) -> None:
        cluster.patch("StatefulSet", name, {"metadata": {"annotations": annotations}})

    def renewed() -> bool:
        made = cluster.read("StatefulSet", name)
        assert made is not None
        return lease.lease_until(made) is not None

    # Whatever somebody else writes there, its owner says again that it lives.
    annotate(**{lease.LEASE: "never"})
    assert eventually(renewed, 30)
    server._fleet._lease.end()  # type: ignore[union-attr]
    time.sleep(1.0)
    annotate(**{objects.OWNER: str(Owner(os.getpid(), "1", "another machine"))})
    [item] = command("ps")["items"]
    assert item["in_use"] is None  # it may live
    assert command("clean")["removed"] == []
    annotate(**{lease.LEASE: "2020-01-01T00:00:00+00:00"})
    [item] = command("ps")["items"]
    assert item["in_use"] is False
    # Whoever makes servers next removes it, without being told to.
    another = start(small(environment={"ANOTHER": "set"}))
    assert cluster.read("StatefulSet", name) is None
    another.stop(0.0)
    server.stop(0.0)


# -- what does not start --------------------------------------------------------------------------


def test_a_missing_image_is_named(cluster: Cluster) -> None:
    with pytest.raises(errors.ImageNotFoundError, match="openenv-gym-nothing:1"):
        small(image="openenv-gym-nothing:1").start(ServerTarget("echo_env"))


def test_what_finds_no_room_is_told_why(cluster: Cluster) -> None:
    provider = small(resources=Resources(cpus=900), start_timeout_s=3)
    with pytest.raises(errors.ServerStartError, match="Insufficient cpu") as caught:
        provider.start(ServerTarget("echo_env"))
    assert "resources=" in str(caught.value.hint)


def test_what_needs_more_memory_than_it_has_is_told_so(cluster: Cluster) -> None:
    provider = small(resources=Resources(cpus=0.5, memory_bytes=16 << 20))
    with pytest.raises(errors.ServerOutOfMemoryError, match="before it was ready"):
        provider.start(ServerTarget("echo_env"))


def test_an_environment_that_does_not_load_is_told_with_its_log(cluster: Cluster) -> None:
    with pytest.raises(errors.ServerStartError, match="ended with code 1") as caught:
        small(image="openenv-gym-echo").start(ServerTarget("no_such_env"))
    assert "no_such_env" in str(caught.value.data["log"])


def test_a_role_is_enough_and_without_it_the_error_says_so(cluster: Cluster) -> None:
    with pytest.raises(errors.ProviderPermissionError, match="create the StatefulSet") as caught:
        start(small(context="trainer"))
    assert "servers/kubernetes/rbac" in str(caught.value.hint)
    subprocess.run(["kubectl", "apply", "-f", ROLE], check=True)
    subprocess.run(
        ["kubectl", "create", "rolebinding", "trainer", "--role=openenv-trainer", "--user=trainer"],
        check=True,
    )
    try:
        for reach in ("address", "forward"):
            server = start(small(context="trainer", reach=reach))
            connect(server).close()
            assert "Serving echo_env" in server.log_tail()
            assert server.why_lost() is None
            server.stop(0.0)
    finally:
        subprocess.run(["kubectl", "delete", "rolebinding", "trainer"], check=True)
        subprocess.run(["kubectl", "delete", "-f", ROLE], check=True)


# -- inside ---------------------------------------------------------------------------------------


def test_a_pod_is_confined(attacker: MakeServer) -> None:
    session = Attack(attacker())
    status = session.run("result = open('/proc/self/status').read()")
    facts = dict(line.split(":\t") for line in status.splitlines() if ":\t" in line)
    assert int(facts["CapEff"], 16) == int(facts["CapBnd"], 16) == 0
    assert facts["NoNewPrivs"] == "1"
    assert facts["Seccomp"] == "2"
    assert int(facts["Uid"].split()[0]) >= 20_000
    assert session.run(f"{CLOSED}\nresult = closed()") == ["EPERM", "EAFNOSUPPORT"]
    assert "Read-only" in session.run("open('/etc/x', 'w')")
    assert "No such file" in session.run("import os; os.listdir('/var/run/secrets')")
    # No other service of the cluster, and of the tokens of the set only its own.
    variables = session.run("result = dict(os.environ)")
    assert not [name for name in variables if name.startswith("OPENENV_ECHO")]
    assert session.run("result = os.listdir('/run/openenv')") == ["token"]
    # Neither names nor the address of a name server.
    assert session.run("result = open('/etc/resolv.conf').read()").strip() == "nameserver 127.0.0.1"


def test_tmp_is_as_large_as_it_may_be(attacker: MakeServer) -> None:
    server = attacker(resources=Resources(cpus=0.5, memory_bytes=400 << 20, tmp_bytes=16 << 20))
    session = Attack(server)
    code = "open('/tmp/x', 'wb', 0).write(bytes(12 << 20)) / open('/tmp/y', 'wb', 0).write(bytes(12 << 20))"
    assert session.run(f"result = {code}") > 1  # what did not fit was not written
    assert "No space left" in session.run("open('/tmp/z', 'wb', 0).write(bytes(1 << 20))")
    assert session.run("result = 'goes on'") == "goes on"
