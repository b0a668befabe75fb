"""`send` and `recv`: whichever sub-environments are ready first, across servers."""

from __future__ import annotations

import multiprocessing
import random
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from gymnasium.error import AlreadyPendingCallError, NoAsyncCallError

from openenv_gym import RemoteVectorEnv, errors
from openenv_gym.vector import PartialBatch
from tests.support.interrupting import interrupted_in
from tests.vector.worlds import CountEnv, Fleet, GateEnv, WorldEnv, same, still


@pytest.mark.parametrize("num_servers", [1, 2, 4])
@pytest.mark.parametrize("releases_gil", [True, False])
def test_trajectories_are_those_of_lockstep(
    fleet: Callable[..., Fleet], num_servers: int, releases_gil: bool
) -> None:
    dice = random.Random(num_servers)
    count, steps = 6, 30
    env = fleet(WorldEnv, count, num_servers, releases_gil=releases_gil).env
    env.reset(seed=5)
    found: list[list[Any]] = [[] for _ in range(count)]
    idle = list(range(count))
    while any(len(each) < steps for each in found):
        chosen = [index for index in idle if dice.random() < 0.7] or idle[:1]
        if chosen:
            idle = [index for index in idle if index not in chosen]
            dice.shuffle(chosen)
            actions = still(env)
            env.send({key: value[: len(chosen)] for key, value in actions.items()}, chosen)
        under_way = count - len(idle)
        batch = env.recv(min_envs=dice.randint(1, under_way))
        assert isinstance(batch, PartialBatch)
        for place, index in enumerate(batch.env_ids.tolist()):
            infos = batch.infos
            found[index].append(
                (
                    batch.observations["box"][place].tolist(),
                    batch.observations["pair"][1][place],
                    batch.rewards[place],
                    batch.terminations[place],
                    batch.truncations[place],
                    infos["count"][place] if infos.get("_count", [0] * count)[place] else None,
                )
            )
            idle.append(index)
    twin = fleet(WorldEnv, count).env
    twin.reset(seed=5)
    for number in range(steps):
        observations, rewards, terminations, truncations, infos = twin.step(still(twin))
        for index in range(count):
            has = infos.get("_count", [False] * count)[index]
            assert found[index][number] == (
                observations["box"][index].tolist(),
                observations["pair"][1][index],
                rewards[index],
                terminations[index],
                truncations[index],
                infos["count"][index] if has else None,
            )


def test_the_fast_do_not_wait_for_the_slow(
    fleet: Callable[..., Fleet], gate: threading.Event
) -> None:
    env = fleet(GateEnv, 4, 2, releases_gil=True).env
    env.reset(seed=0)
    env.send([0, 0, 1, 0])
    seen: list[int] = []
    while len(seen) < 30:
        batch = env.recv()
        assert 2 not in batch.env_ids
        seen += batch.env_ids.tolist()
        env.send(np.zeros(len(batch.env_ids), int), batch.env_ids)
    gate.set()
    batch = env.recv(min_envs=4)
    assert sorted(batch.env_ids.tolist()) == [0, 1, 2, 3]
    assert batch.rewards[batch.env_ids.tolist().index(2)] == 1


class TeamEnv(CountEnv):
    """A step ends when as many are in theirs as the team has."""

    team = threading.Barrier(1)

    def step(self, action: Any) -> Any:
        self.team.wait(60)
        return super().step(action)


@pytest.mark.parametrize("num_servers", [1, 2])
def test_those_that_were_sent_are_in_their_steps_at_once(
    fleet: Callable[..., Fleet], num_servers: int
) -> None:
    env = fleet(TeamEnv, 40, num_servers).env
    env.reset(seed=0)
    for size in (40, 7, 40):
        TeamEnv.team = threading.Barrier(size)
        env.send(np.zeros(size, int), np.arange(40)[::-1][:size])
        assert len(env.recv(min_envs=size).env_ids) == size
    TeamEnv.team = threading.Barrier(1)
    assert env.step([0] * 40)[1].tolist() == [3] * 33 + [4] * 7


@pytest.mark.parametrize("num_servers", [1, 2])
def test_a_time_limit_loses_nothing(
    fleet: Callable[..., Fleet], gate: threading.Event, num_servers: int
) -> None:
    env = fleet(GateEnv, 2, num_servers, releases_gil=True).env
    env.reset(seed=0)
    env.send([0, 1])
    with pytest.raises(multiprocessing.TimeoutError, match=r"`recv` has timed out after 0\.1"):
        env.recv(min_envs=2, timeout=0.1)
    batch = env.recv(min_envs=1, timeout=20)
    assert batch.env_ids.tolist() == [0] and batch.rewards.tolist() == [1]
    with pytest.raises(multiprocessing.TimeoutError):
        env.recv(timeout=0)
    gate.set()
    env.send([0], [0])
    batch = env.recv(min_envs=2)
    assert dict(zip(batch.env_ids.tolist(), batch.rewards.tolist(), strict=True)) == {0: 2, 1: 1}
    assert batch.observations[:, 0].tolist() == batch.rewards.tolist()


def test_calls_out_of_order(fleet: Callable[..., Fleet]) -> None:
    env = fleet(CountEnv, 4, 2).env
    env.reset(seed=0)
    with pytest.raises(NoAsyncCallError, match="`recv` without any prior call to `send`"):
        env.recv()
    env.send([0, 0], [3, 1])
    with pytest.raises(AlreadyPendingCallError, match="sub-environments 1 while waiting") as caught:
        env.send([0, 0], [0, 1])
    assert caught.value.name == "send"
    for name, call in {
        "step_async": lambda: env.step([0] * 4),
        "reset_async": env.reset,
        "call_async": lambda: env.call("count"),
        "set_attr": lambda: env.set_attr("count", 1),
    }.items():
        with pytest.raises(AlreadyPendingCallError, match=f"`{name}` while.*call to `send`"):
            call()
    for wrong in (0, 3, True, 1.0, -1):
        with pytest.raises(errors.InvalidOptionError, match="from 1 to 2"):
            env.recv(min_envs=wrong)  # type: ignore[arg-type]
    batch = env.recv(min_envs=np.int64(2))
    assert sorted(batch.env_ids.tolist()) == [1, 3]
    for wrong in ([], [4], [-1], [0, 0], [0.5], "01", [[0]]):
        with pytest.raises(errors.InvalidOptionError, match="env_ids"):
            env.send([0], wrong)
    with pytest.raises(errors.InvalidActionError, match=r"shape \(2,\), got shape \(3,\)"):
        env.send([0, 0, 0], [0, 1])
    assert env.step([0] * 4)[1].tolist() == [1, 2, 1, 2]


def test_many_sends_before_a_recv(fleet: Callable[..., Fleet]) -> None:
    env = fleet(CountEnv, 200, 2).env
    env.reset(seed=0)
    for index in range(200):
        env.send([0], np.array([index]))
    assert sorted(env.recv(min_envs=200).env_ids.tolist()) == list(range(200))


@pytest.mark.parametrize("num_servers", [1, 2])
def test_an_exception_takes_only_its_own(fleet: Callable[..., Fleet], num_servers: int) -> None:
    env = fleet(CountEnv, 4, num_servers).env
    env.reset(seed=0)
    env.send([0, -1, 0, 0])
    with pytest.raises(ValueError, match="below zero") as caught:
        for _ in range(4):
            env.recv(min_envs=1)
    assert caught.value.data["indices"] == [1]  # type: ignore[attr-defined]
    while env._partial.in_flight:
        env.recv()
    assert env.step([0] * 4)[1].tolist() == [2, 1, 2, 2]


def received(env: RemoteVectorEnv, count: int) -> dict[int, float]:
    """Return the rewards of all that are under way, of which there are so many."""
    batch = env.recv(min_envs=count)
    with pytest.raises(NoAsyncCallError):
        env.recv()
    return dict(zip(batch.env_ids.tolist(), batch.rewards.tolist(), strict=True))


@pytest.mark.parametrize("num_servers", [1, 2])
def test_an_action_that_is_refused_takes_only_its_own(
    fleet: Callable[..., Fleet], num_servers: int
) -> None:
    env = fleet(CountEnv, 4, num_servers).env
    env.reset(seed=0)
    env.send([0, 5000, 0, 0])
    with pytest.raises(errors.InvalidActionError, match=r"actions\[1\] is 5000") as caught:
        env.recv(min_envs=4)
    assert caught.value.data["indices"] == [1]
    assert received(env, 3) == {0: 1, 2: 1, 3: 1}
    # Refused after another one was sent, which may be ready first.
    env.send([0], [0])
    env.send([-7], [1])
    env.send([2000], [2])
    refused: list[int] = []
    rewards: dict[int, float] = {}
    for _ in range(3):
        try:
            batch = env.recv()
        except errors.InvalidActionError as error:
            refused += error.data["indices"]
        else:
            rewards.update(zip(batch.env_ids.tolist(), batch.rewards.tolist(), strict=True))
    assert sorted(refused) == [1, 2] and rewards == {0: 2}
    assert env.step([0] * 4)[1].tolist() == [3, 1, 2, 2]


def test_a_refusal_among_many_sends_is_told_by_recv(fleet: Callable[..., Fleet]) -> None:
    env = fleet(CountEnv, 60, 2).env
    env.reset(seed=0)
    for index in range(60):
        env.send([5000 if index in (0, 40) else 0], [index])
    refused = []
    for left in (60, 59):
        with pytest.raises(errors.InvalidActionError) as caught:
            env.recv(min_envs=left)
        refused += caught.value.data["indices"]
    assert sorted(refused) == [0, 40]
    assert sorted(received(env, 58)) == [index for index in range(60) if index not in refused]
    env.step([0] * 60)


def test_ctrl_c_in_recv_loses_nothing(fleet: Callable[..., Fleet], gate: threading.Event) -> None:
    env = fleet(GateEnv, 2, 2, releases_gil=True).env
    env.reset(seed=0)
    env.send([1, 1])
    with interrupted_in("gather"), pytest.raises(KeyboardInterrupt):
        env.recv(min_envs=2)
    gate.set()
    batch = env.recv(min_envs=2)
    assert sorted(batch.env_ids.tolist()) == [0, 1] and batch.rewards.tolist() == [1, 1]


@pytest.mark.parametrize("error", [KeyboardInterrupt, errors.FrameTooLargeError])
def test_what_was_not_sent_is_not_under_way(
    fleet: Callable[..., Fleet], monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    env = fleet(CountEnv, 4, 2).env
    env.reset(seed=0)

    def fail(*args: Any, **kwargs: Any) -> Any:
        raise error("as if the connection had to be resumed first")

    with monkeypatch.context() as patched:
        patched.setattr(env._fleet.members[1].connection, "begin", fail)
        with pytest.raises(error):
            env.send([0] * 4)
    assert received(env, 2) == {0: 1, 1: 1}
    assert env.step([0] * 4)[1].tolist() == [2, 2, 1, 1]


def test_a_single_server_hands_out_what_arrives(fleet: Callable[..., Fleet]) -> None:
    env = fleet(WorldEnv, 3, 1).env
    env.reset(seed=1)
    twin = fleet(WorldEnv, 3, 1).env
    twin.reset(seed=1)
    env.send(still(env))
    batch = env.recv(min_envs=3)
    order = batch.env_ids
    assert sorted(order.tolist()) == [0, 1, 2]
    observations, rewards, terminations, truncations, infos = twin.step(still(twin))
    same(batch.observations["box"], observations["box"][order])
    same(batch.rewards, rewards[order])
    same(batch.terminations, terminations[order])
    same(batch.truncations, truncations[order])
    same(batch.infos["count"], infos["count"][order])
