"""Many sub-environments on many servers, and many sessions on one."""

from __future__ import annotations

import gc
import resource
import time
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest

from openenv_gym import RemoteVectorEnv
from openenv_gym.client import Connection
from openenv_gym.providers import ServerTarget, get_provider
from tests.support.images import image
from tests.support.processes import count_descriptors, count_threads, memory_bytes
from tests.support.waiting import eventually


NUM_ENVS = 1024
NUM_SERVERS = 32
NUM_SESSIONS = 2048

DESCRIPTORS_EACH = 3  # a server's connection, its channel or listener, its log


def drive(provider: str, shared: int = 0) -> None:
    """Step 1,024 sub-environments in 32 servers from this process.

    Args:
        provider: What runs the servers.
        shared: Descriptors that it keeps for later, whatever the number of servers.
    """
    # What the first one leaves for others (a guardian, a client of the daemon) is not counted.
    gymnasium.make_vec("openenv/CartPole-v1", num_envs=1, provider=provider).close()
    descriptors, threads = count_descriptors(), count_threads()
    env = gymnasium.make_vec(
        "openenv/CartPole-v1", num_envs=NUM_ENVS, num_servers=NUM_SERVERS, provider=provider
    )
    assert isinstance(env, RemoteVectorEnv)
    try:
        assert [member.num_envs for member in env._fleet.members] == [32] * NUM_SERVERS
        observations, _ = env.reset(seed=0)
        # Those with a seed in common are where they would be alone, whichever server has them.
        twin = gymnasium.make("CartPole-v1")
        for index in (0, 31, 32, 500, 1023):
            assert (twin.reset(seed=index)[0] == observations[index]).all()
        twin.close()
        actions = np.arange(NUM_ENVS) % 2
        for _ in range(8):
            _, rewards, *_ = env.step(actions)
            assert rewards.tolist() == [1.0] * NUM_ENVS
        env.send(actions)
        assert sorted(env.recv(min_envs=NUM_ENVS).env_ids.tolist()) == list(range(NUM_ENVS))
        held = descriptors + DESCRIPTORS_EACH * NUM_SERVERS + shared
        assert eventually(lambda: count_descriptors() <= held)
        assert eventually(lambda: count_threads() <= threads)  # of those that started servers
    finally:
        env.close()
    assert eventually(lambda: count_descriptors() <= descriptors + shared)
    assert eventually(lambda: count_threads() <= threads)  # those that stopped servers


def test_a_thousand_sub_environments() -> None:
    drive("process")


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_thousand_sub_environments_in_containers(docker: Any) -> None:
    image("gymnasium")
    drive("docker", shared=2 * 32)  # connections to the daemon, of two clients


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    """Let this process open as many files as it has sessions, and some more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(soft, NUM_SESSIONS + 512)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"this process may open {hard} files at most, and {wanted} are needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_two_thousand_sessions_on_one_server(many_descriptors: None) -> None:
    target = ServerTarget("tests.support.worlds:CountingEnv")
    server: Any = get_provider("process").start(target)
    try:
        gc.collect()
        descriptors = count_descriptors()  # those of earlier tests may go meanwhile
        connections = [
            # The first one waits until the server has started.
            Connection(server.address, {"payload_bytes": 10_000}, connect_timeout_s=60)
            for _ in range(NUM_SESSIONS)
        ]
        assert eventually(lambda: count_descriptors() <= descriptors + NUM_SESSIONS)
        step_all(connections)
        # The bound of its pool is 64; others listen and keep house.
        assert count_threads(server.pid) <= 70
        most = memory_bytes(server.pid)
        for connection in connections:
            connection.close()
        assert eventually(lambda: count_descriptors() <= descriptors)
        assert eventually(lambda: count_descriptors(server.pid) < 64)
        assert eventually(lambda: memory_bytes(server.pid) < 0.6 * most)
        # And it serves as before.
        again = [Connection(server.address, {}) for _ in range(8)]
        step_all(again)
        for connection in again:
            connection.close()
    finally:
        server.stop()


def step_all(connections: list[Connection]) -> None:
    end_s = time.monotonic() + 600
    pending = [each.begin("reset", [None, None]) for each in connections]
    for each, request in zip(connections, pending, strict=True):
        assert each.finish(request, end_s) is not None
    for number in (1, 2):
        actions = [(number * index) % 1000 for index in range(len(connections))]
        pending = [
            each.begin("step", [action]) for each, action in zip(connections, actions, strict=True)
        ]
        for each, request, action in zip(connections, pending, actions, strict=True):
            result = each.finish(request, end_s)
            assert result is not None
            assert result.value[0]["count"].tolist() == [number, 1, action]
