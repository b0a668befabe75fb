"""Rollouts on swarms: the same as here, whatever becomes of nodes and tasks."""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv

from openenv_gym.providers.swarm import SwarmServer
from tests.support.engines import docker_client, missing
from tests.support.waiting import eventually
from tests.testbed.swarm import Swarm, swarm, why_not
from tests.vector.rollouts import infos_of, play, same_for
from tests.vector.worlds import same


pytestmark = [pytest.mark.swarm, pytest.mark.timeout(300)]

CARTPOLE = "openenv/CartPole-v1"
MakeProvider = Callable[..., Any]


def servers_of(env: Any) -> list[SwarmServer]:
    return [member._release.__self__ for member in env.unwrapped._fleet.members]


def rollout(env: Any, steps: int = 300) -> str:
    """Play, and return a hash of all that came."""
    digest = hashlib.sha256()
    generator = np.random.default_rng(1)
    digest.update(env.reset(seed=7)[0].tobytes())
    for _ in range(steps):
        for part in env.step(generator.integers(0, 2, env.num_envs))[:4]:
            digest.update(part.tobytes())
    return digest.hexdigest()


@pytest.mark.parametrize("where", ["one", "three"])
def test_the_same_trajectory_as_in_a_thread(
    where: str, request: pytest.FixtureRequest, provider: MakeProvider, capsys: Any
) -> None:
    nodes = request.getfixturevalue(where)
    with capsys.disabled():
        print()
        hashes = {}
        for name, choice in (("thread", "thread"), ("swarm", provider())):
            env = gymnasium.make_vec(CARTPOLE, num_envs=6, num_servers=3, provider=choice)
            hashes[name] = rollout(env)
            print(f"{name:7} {hashes[name]}")
            if name == "swarm":
                names = [server.task_name for server in servers_of(env)]
                print(*(f"        task {each}" for each in names), sep="\n")
                assert len(set(names)) == 3
                # Swarm spreads them; and each session is at its own task.
                assert len({each.rpartition(" on ")[2] for each in names}) == len(nodes.nodes)
                assert len({str(server.address) for server in servers_of(env)}) == 3
            env.close()
    assert hashes["swarm"] == hashes["thread"]


def test_to_the_bit(three: Swarm, provider: MakeProvider) -> None:
    env = gymnasium.make_vec(CARTPOLE, num_envs=6, num_servers=3, provider=provider())
    theirs = SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")] * 6)
    try:
        assert play(theirs, env, steps=150) > 6
    finally:
        env.close()
        theirs.close()


def test_a_session_resumes_at_its_own_task(three: Swarm, provider: MakeProvider) -> None:
    env = gymnasium.make_vec(CARTPOLE, num_envs=6, num_servers=3, provider=provider())
    theirs = SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")] * 6)
    theirs.action_space.seed(2)
    same(env.reset(seed=1), theirs.reset(seed=1))
    before = [str(server.address) for server in servers_of(env)]
    for number in range(60):
        if number in (20, 40):
            for member in env._fleet.members:
                member.connection._transport.shut_down()
        actions = theirs.action_space.sample()
        same(env.step(actions), theirs.step(actions))
    assert [str(server.address) for server in servers_of(env)] == before
    env.close()
    theirs.close()


class Watched:
    """A rollout of which some servers are lost, beside Gymnasium's own."""

    def __init__(self, provider: Any) -> None:
        self.env: Any = gymnasium.make_vec(
            CARTPOLE, num_envs=6, num_servers=3, provider=provider, on_failure="restart"
        )
        self._theirs = SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")] * 6)
        self._theirs.action_space.seed(5)
        self._last, _ = self.env.reset(seed=3)
        same(self._last, self._theirs.reset(seed=3)[0])
        self._over = np.zeros(6, np.bool_)
        self.lost: list[int] = []

    def step(self) -> None:
        """Check a step: each sub-environment goes on to the bit, or its loss is told."""
        actions = self._theirs.action_space.sample()
        got, expected = self.env.step(actions), self._theirs.step(actions)
        for index in range(6):
            infos = infos_of(got[4], index)
            if "server_restarted" in infos:
                # Its episode ended as if it had been truncated after the last observation; one
                # that was over already has ended, and this is the first step of another.
                over = bool(self._over[index])
                assert (got[1][index], got[2][index], got[3][index]) == (0, False, not over)
                if not over:
                    same(got[0][index], self._last[index])
                self.lost.append(index)
        same_for(sorted({*range(6)} - {*self.lost}), got, expected)
        self._last, self._over = got[0], got[2] | got[3]

    def until_lost(self, indices: list[int], limit: int = 20_000) -> None:
        """Step until these are reported as lost."""
        for _ in range(limit):
            self.step()
            if sorted(self.lost) == indices:
                return
        raise AssertionError(f"reported as lost: {self.lost}, expected {indices}")

    def finish(self) -> None:
        """Check that all that were lost are like others again, once they are seeded."""
        same(self.env.reset(seed=9), self._theirs.reset(seed=9))
        self.lost.clear()
        for _ in range(50):
            self.step()
        assert self.lost == []

    def close(self) -> None:
        self.env.close()
        self._theirs.close()


@pytest.fixture
def watched(three: Swarm, provider: MakeProvider) -> Iterator[Watched]:
    made = Watched(provider())
    yield made
    made.close()


def node_of(server: SwarmServer) -> int:
    return int(server.task_name.rpartition(" on node")[2])


def test_a_node_is_drained(three: Swarm, watched: Watched) -> None:
    for _ in range(50):
        watched.step()
    drained = node_of(servers_of(watched.env)[1])
    three.drain(drained)
    try:
        watched.until_lost([2, 3])
        assert drained not in {node_of(server) for server in servers_of(watched.env)}
        watched.finish()
    finally:
        three.activate(drained)


@pytest.fixture
def mortal(swarm_image: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Swarm]:
    """A swarm of its own for a test after which not all of it is there."""
    if problem := why_not():
        missing("docker", problem)
    with contextlib.closing(docker_client()) as source, swarm(3) as made:
        made.load(source, swarm_image)
        monkeypatch.setenv("DOCKER_HOST", made.host)
        yield made


def test_a_node_dies(mortal: Swarm, provider: MakeProvider) -> None:
    """Nobody says so: it does not answer any more, and the managers notice some time later."""
    watched = Watched(provider())
    try:
        for _ in range(50):
            watched.step()
        nodes = [node_of(server) for server in servers_of(watched.env)]
        dead = next(number for number in nodes if number != 1)  # another one than the manager
        place = nodes.index(dead)
        mortal.kill(dead)
        begin_s = time.monotonic()
        watched.until_lost([2 * place, 2 * place + 1])
        print(f"node{dead} died; noticed after {time.monotonic() - begin_s:.1f} s")
        assert dead not in {node_of(server) for server in servers_of(watched.env)}
        watched.finish()
    finally:
        watched.close()
    assert mortal.manager.services.list() == mortal.manager.secrets.list() == []


def test_a_task_is_killed(three: Swarm, watched: Watched) -> None:
    for _ in range(50):
        watched.step()
    server = servers_of(watched.env)[2]
    before = server.task_name
    task = three.manager.api.inspect_task(server._task_id)
    container = task["Status"]["ContainerStatus"]["ContainerID"]
    three.nodes[node_of(server) - 1].containers.get(container).kill()
    watched.until_lost([4, 5])
    # Swarm has put another one into the same slot; which is another task, with another address.
    after = servers_of(watched.env)[2]
    assert (after.task_name.partition(" ")[0], after._task_id) != (before, server._task_id)
    assert len(three.manager.services.list()) == 1
    watched.finish()


def test_a_rolling_update_drains_task_after_task(three: Swarm, watched: Watched) -> None:
    before = {server._task_id for server in servers_of(watched.env)}
    service = three.manager.services.list()[0]
    service.force_update()

    def updated() -> bool:
        watched.step()
        service.reload()
        return service.attrs["UpdateStatus"]["State"] == "completed"

    assert eventually(updated, 120)
    for _ in range(50):
        watched.step()
    after = {server._task_id for server in servers_of(watched.env)}
    running = {task["ID"] for task in service.tasks({"desired-state": "running"})}
    assert after <= running and not after & before
    # Each was lost, and told of it; one that moved to a task that was then updated, twice.
    assert {*watched.lost} == {*range(6)}
    watched.finish()
