"""Servers that die."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest

from openenv_gym import errors
from tests.vector.worlds import CountEnv, Fleet, GateEnv, WorldEnv, same, still


def test_a_loss_is_an_error_that_names_its_sub_environments(fleet: Callable[..., Fleet]) -> None:
    made = fleet(CountEnv, 6, 3)
    env = made.env
    env.reset(seed=0)
    made.kill(1)
    with pytest.raises(errors.ServerDiedError, match="Sub-environments 2, 3 are lost") as caught:
        env.step([0] * 6)
    assert caught.value.data["indices"] == [2, 3]
    sent = [member.connection.frames_sent for member in env._fleet.members]
    with pytest.raises(errors.SessionClosedError, match="Sub-environments 2, 3 are lost"):
        env.step([0] * 6)
    assert [member.connection.frames_sent for member in env._fleet.members] == sent
    with pytest.raises(errors.SessionClosedError):
        env.reset()
    env.close()


class OverEnv(CountEnv):
    """An action above zero ends the episode."""

    def step(self, action: Any) -> Any:
        observation, reward, _, _, info = super().step(0)
        return observation, reward, bool(action > 0), False, info


def lost(infos: dict[str, Any]) -> list[int]:
    if "server_restarted" not in infos:
        return []
    flags, mask = infos["server_restarted"], infos["_server_restarted"]
    assert flags.dtype == np.int64 and mask.dtype == np.bool_
    assert (flags == mask).all()
    return np.flatnonzero(mask).tolist()


@pytest.mark.parametrize("num_servers", [1, 2])
def test_restart_with_next_step(fleet: Callable[..., Fleet], num_servers: int) -> None:
    made = fleet(CountEnv, 4, num_servers, on_failure="restart")
    env = made.env
    env.reset(seed=0)
    before = env.step([0] * 4)[0].copy()
    made.kill(num_servers - 1)
    gone = list(range(0 if num_servers == 1 else 2, 4))
    kept = [index for index in range(4) if index not in gone]
    observations, rewards, terminations, truncations, infos = env.step([0] * 4)
    assert lost(infos) == gone
    assert not terminations.any()
    assert np.flatnonzero(truncations).tolist() == gone
    assert rewards[gone].tolist() == [0] * len(gone)
    assert (observations[gone] == before[gone]).all()
    assert rewards[kept].tolist() == [2] * len(kept)
    observations, rewards, terminations, truncations, infos = env.step([0] * 4)
    assert not terminations.any() and not truncations.any() and lost(infos) == []
    assert observations[gone, 0].tolist() == rewards[gone].tolist() == [0] * len(gone)
    assert rewards[kept].tolist() == [3] * len(kept)
    observations, rewards, *_ = env.step([0] * 4)
    assert rewards[gone].tolist() == [1] * len(gone)
    assert rewards[kept].tolist() == [4] * len(kept)


def test_restart_with_same_step(fleet: Callable[..., Fleet]) -> None:
    made = fleet(WorldEnv, 4, 2, on_failure="restart", autoreset_mode="SameStep")
    env = made.env
    env.reset(seed=0)
    before = env.step(still(env))[0]
    env.set_attr("gravity", [1.0, 2.0, 3.0, 4.0])
    made.kill(1)
    observations, rewards, _, truncations, infos = env.step(still(env))
    assert lost(infos) == [2, 3]
    assert truncations.tolist()[2:] == [True, True] and rewards[2:].tolist() == [0, 0]
    assert infos["_final_obs"].tolist()[2:] == [True, True]
    for index in (2, 3):
        final = infos["final_obs"][index]
        assert final["box"].tolist() == before["box"][index].tolist()
        assert final["pair"][1] == before["pair"][1][index]
        assert final in env.single_observation_space
    assert observations["box"][2:, 0].tolist() == [0, 0]
    assert infos["_start"].tolist()[2:] == [True, True]
    assert env.get_attr("gravity") == (1.0, 2.0, 3.0, 4.0)  # set again on the fresh server
    assert env.step(still(env))[1].tolist()[2:] == [1, 1]


def test_restart_with_autoreset_disabled(fleet: Callable[..., Fleet]) -> None:
    made = fleet(CountEnv, 4, 2, on_failure="restart", autoreset_mode="Disabled")
    env = made.env
    env.reset(seed=0)
    env.step([0] * 4)
    made.kill(0)
    observations, _, _, truncations, infos = env.step([0] * 4)
    assert lost(infos) == [0, 1] and truncations.tolist() == [True, True, False, False]
    assert observations[:, 0].tolist() == [1, 1, 2, 2]
    with pytest.raises(errors.ResetNeededError, match=r"sub-environment\(s\) 0, 1\."):
        env.step([0] * 4)
    # One of the two is not reset yet, so that what it shows is the end of its episode.
    observations, infos = env.reset(options={"reset_mask": np.arange(4) == 1})
    assert observations[:, 0].tolist() == [1, 0, 2, 2]
    observations, infos = env.reset(options={"reset_mask": np.arange(4) == 0})
    assert observations[:, 0].tolist() == [0, 0, 2, 2]
    assert env.step([0] * 4)[1].tolist() == [1, 1, 3, 3]


def test_restart_during_a_reset(fleet: Callable[..., Fleet]) -> None:
    made = fleet(CountEnv, 4, 2, on_failure="restart", autoreset_mode="Disabled")
    env = made.env
    made.kill(0)
    observations, infos = env.reset(seed=5)
    assert lost(infos) == [0, 1]
    twin = fleet(CountEnv, 4, 2).env
    same(observations, twin.reset(seed=5)[0])
    env.step([0] * 4)
    made.kill(1)
    observations, infos = env.reset(
        seed=5, options={"reset_mask": np.array([True, False, True, False])}
    )
    assert lost(infos) == [2]
    assert observations[:, 0].tolist() == [0, 1, 0, 1]
    _, rewards, _, truncations, infos = env.step([0] * 4)
    assert truncations.tolist() == [False, False, False, True] and lost(infos) == [3]
    assert rewards.tolist()[:2] == [1, 2]


def test_a_reset_of_others_neither_ends_an_episode_twice_nor_tells_a_loss_twice(
    fleet: Callable[..., Fleet],
) -> None:
    made = fleet(OverEnv, 4, 2, on_failure="restart")
    env = made.env
    env.reset(seed=0)
    assert env.step([1, 0, 0, 0])[2].tolist() == [True, False, False, False]
    made.kill(0)
    observations, infos = env.reset(options={"reset_mask": np.array([False, True, False, False])})
    assert lost(infos) == [1]
    assert observations[:, 0].tolist() == [1, 0, 1, 1]
    found = []
    for _ in range(3):
        env.send([0], [0])
        found.append(env.recv())
    # Its episode was over: the next step begins another one, as without the loss.
    assert [batch.truncations[0] for batch in found] == [False] * 3
    assert [batch.observations[0, 0] for batch in found] == [0, 1, 2]
    assert ["server_restarted" in batch.infos for batch in found] == [True, False, False]


@pytest.mark.parametrize("partial", [False, True])
def test_a_loss_that_a_reset_of_others_finds_is_told_once(
    fleet: Callable[..., Fleet], partial: bool
) -> None:
    made = fleet(CountEnv, 2, 1, on_failure="restart")
    env = made.env
    env.reset(seed=0)
    env.step([0, 0])
    made.kill(0)
    assert lost(env.reset(options={"reset_mask": np.array([True, False])})[1]) == [0]
    found = []
    for _ in range(3):
        if partial:
            env.send([0], [1])
            _, rewards, _, truncations, infos, _ = env.recv()
        else:
            _, rewards, _, truncations, infos = env.step([0, 0])
        found.append((rewards[-1], truncations[-1], "server_restarted" in infos))
    assert found == [(0, True, True), (0, False, False), (1, False, False)]


def test_those_that_wait_keep_their_last_observation_in_a_reset_of_others(
    fleet: Callable[..., Fleet],
) -> None:
    made = fleet(CountEnv, 4, 2, on_failure="restart")
    env = made.env
    env.reset(seed=0)
    for _ in range(3):
        before = env.step([0] * 4)[0].copy()
    made.kill(0)
    with pytest.raises(errors.ConnectionLostError):
        env.get_attr("count")  # finds the loss, and has nowhere to tell it
    observations, infos = env.reset(options={"reset_mask": np.array([True, False, False, False])})
    assert lost(infos) == [] and observations[0, 0] == 0
    assert (observations[1:] == before[1:]).all()
    observations, _, _, truncations, infos = env.step([0] * 4)
    assert lost(infos) == [1] and truncations.tolist() == [False, True, False, False]
    assert (observations[1] == before[1]).all()


def test_a_loss_is_told_also_where_the_first_fresh_server_fails(
    fleet: Callable[..., Fleet], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = fleet(CountEnv, 2, 2, on_failure="restart")
    env = made.env
    env.reset(seed=0)
    env.step([0, 0])
    made.kill(1)

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise ValueError("not now")

    with monkeypatch.context() as patched:
        patched.setattr(CountEnv, "reset", refuse)
        with pytest.raises(ValueError, match="not now"):
            env.step([0, 0])
    _, rewards, _, truncations, infos = env.step([0, 0])
    assert lost(infos) == [1] and truncations.tolist() == [False, True]
    assert rewards.tolist() == [3, 0]


@pytest.mark.parametrize("partial", [False, True])
@pytest.mark.parametrize("num_servers", [1, 2, 4])
def test_without_autoreset_nobody_moves_before_a_reset(
    fleet: Callable[..., Fleet], num_servers: int, partial: bool
) -> None:
    env = fleet(OverEnv, 4, num_servers, autoreset_mode="Disabled").env
    env.reset(seed=0)
    if partial:
        env.send([0, 1, 0, 1])
        env.recv(min_envs=4)
    else:
        env.step([0, 1, 0, 1])
    for _ in range(2):
        with pytest.raises(errors.ResetNeededError, match=r"sub-environment\(s\) 1, 3\.") as caught:
            env.step([0] * 4)
        assert caught.value.data["indices"] == [1, 3]
    assert env.get_attr("count") == (1, 1, 1, 1)
    env.send([0] * 4)
    with pytest.raises(errors.ResetNeededError) as caught:
        env.recv(min_envs=4)
    assert caught.value.data["indices"] == [1, 3]
    assert sorted(env.recv(min_envs=2).env_ids.tolist()) == [0, 2]
    env.reset(options={"reset_mask": np.array([False, True, False, True])})
    assert env.step([0] * 4)[1].tolist() == [3, 1, 3, 1]


def test_restart_during_a_call(fleet: Callable[..., Fleet]) -> None:
    made = fleet(CountEnv, 2, 2, on_failure="restart")
    env = made.env
    env.reset(seed=0)
    made.kill(1)
    with pytest.raises(errors.ConnectionLostError, match="Sub-environments 1 are lost"):
        env.get_attr("count")
    assert env.get_attr("count") == (0, 0)
    _, rewards, _, truncations, infos = env.step([0, 0])
    assert lost(infos) == [1] and truncations.tolist() == [False, True]
    assert rewards.tolist() == [1, 0]


def test_restart_during_partial_steps(fleet: Callable[..., Fleet], gate: threading.Event) -> None:
    made = fleet(GateEnv, 4, 2, on_failure="restart", releases_gil=True)
    env = made.env
    env.reset(seed=0)
    env.send([0, 0, 1], [0, 1, 2])
    made.kill(1, 0.0)
    batch = env.recv(min_envs=3)
    rewards = dict(zip(batch.env_ids.tolist(), batch.rewards.tolist(), strict=True))
    truncated = dict(zip(batch.env_ids.tolist(), batch.truncations.tolist(), strict=True))
    assert rewards == {0: 1, 1: 1, 2: 0}
    assert truncated == {0: False, 1: False, 2: True}
    assert [batch.env_ids[place] for place in lost(batch.infos)] == [2]
    # 3 was idle: it tells when it is sent the next time; 2 begins its new episode.
    env.send([0, 0, 0, 0])
    batch = env.recv(min_envs=4)
    told = {
        index: (batch.rewards[place], bool(batch.truncations[place]))
        for place, index in enumerate(batch.env_ids.tolist())
    }
    assert told == {0: (2, False), 1: (2, False), 2: (0, False), 3: (0, True)}
    assert [batch.env_ids[place] for place in lost(batch.infos)] == [3]
    # In step again, while one of the server's two still has something to say.
    _, rewards_, _, truncations, infos = env.step([0] * 4)
    assert truncations.tolist() == [False] * 4 and lost(infos) == []
    assert rewards_.tolist() == [3, 3, 1, 0]
    assert env.step([0] * 4)[1].tolist() == [4, 4, 2, 1]


def test_a_loss_during_partial_steps(fleet: Callable[..., Fleet], gate: threading.Event) -> None:
    made = fleet(GateEnv, 4, 2, releases_gil=True)
    env = made.env
    env.reset(seed=0)
    env.send([0, 0, 1, 1])
    made.kill(1, 0.0)
    with pytest.raises(errors.ConnectionLostError, match="Sub-environments 2, 3 are lost"):
        env.recv(min_envs=4)
    assert sorted(env.recv(min_envs=2).env_ids.tolist()) == [0, 1]


def test_no_other_server_can_be_had(fleet: Callable[..., Fleet]) -> None:
    made = fleet(CountEnv, 2, 2, on_failure="restart")
    env = made.env
    env.reset(seed=0)
    reopen = env._fleet.members[0]._reopen

    def refuse() -> Any:
        raise errors.ServerStartError("no room")

    env._fleet.members[0]._reopen = refuse
    made.kill(0)
    with pytest.raises(errors.ServerDiedError, match="Sub-environments 0 are lost") as caught:
        env.step([0, 0])
    assert "no room" in str(caught.value.__cause__)
    env._fleet.members[0]._reopen = reopen
    _, _, _, truncations, infos = env.step([0, 0])
    assert lost(infos) == [0] and truncations.tolist() == [True, False]


def test_what_on_failure_may_be(fleet: Callable[..., Fleet]) -> None:
    with pytest.raises(errors.InvalidOptionError, match="'raise', 'restart'"):
        fleet(CountEnv, 2, 2, on_failure="ignore")


def test_a_killed_process(fleet: Callable[..., Fleet]) -> None:
    env = gymnasium.make_vec(
        "openenv/CartPole-v1", num_envs=4, num_servers=2, provider="process", on_failure="restart"
    )
    env.reset(seed=0)
    env.step(np.zeros(4, int))
    process = env._fleet.members[1]._release.__self__  # type: ignore[attr-defined]
    os.kill(process.pid, signal.SIGKILL)
    _, rewards, _, truncations, infos = env.step(np.zeros(4, int))
    assert lost(infos) == [2, 3] and truncations.tolist() == [False, False, True, True]
    assert rewards.tolist() == [1, 1, 0, 0]
    env.step(np.zeros(4, int))
    assert env.step(np.zeros(4, int))[1].tolist() == [1, 1, 1, 1]
    env.close()


@pytest.mark.parametrize(
    ("arguments", "grace_s"), [({}, 5.0), ({"timeout": 2}, 2.0), ({"terminate": True}, 0.0)]
)
def test_servers_stop_all_at_once(
    fleet: Callable[..., Fleet], arguments: dict[str, Any], grace_s: float
) -> None:
    env = fleet(CountEnv, 4, 4).env
    env.reset()
    together = threading.Barrier(4)
    told = []

    def release(seconds: float) -> None:
        told.append(seconds)
        together.wait(60)  # where they came one after the other, this would raise

    for member in env._fleet.members:
        member._release = release
    env.close(**arguments)
    assert told == [grace_s] * 4
    assert not together.broken


@pytest.mark.parametrize("partial", [False, True])
def test_a_server_that_goes_between_two_episodes_ends_none(
    fleet: Callable[..., Fleet], partial: bool
) -> None:
    ours = fleet(CountEnv, 4, 2, options={"length": 2}, on_failure="restart")
    env = ours.env

    def step() -> tuple[Any, ...]:
        if not partial:
            return env.step(np.zeros(4, np.int64))
        env.send(np.zeros(4, np.int64))
        batch = env.recv(min_envs=4)
        order = np.argsort(batch.env_ids)
        infos = {key: value[order] for key, value in batch.infos.items()}
        return (*(column[order] for column in batch[:4]), infos)

    env.reset(seed=0)
    step()
    assert step()[2].all()  # all episodes are over
    ours.kill(1)
    observations, rewards, terminations, truncations, infos = step()  # which resets
    assert not terminations.any() and not truncations.any()
    assert rewards.tolist() == [0] * 4
    assert observations[:, 0].tolist() == [0] * 4
    assert infos["server_restarted"].tolist() == [0, 0, 1, 1]
    assert "server_restarted" not in step()[4]
    assert step()[2].all()  # in step with each other
