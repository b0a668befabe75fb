"""One container of four is killed in the middle of a rollout, and the trainer itself."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from openenv_gym import RemoteVectorEnv, errors
from tests.support.images import image
from tests.support.owners import Owner
from tests.support.waiting import eventually
from tests.vector.rollouts import infos_of, same_for
from tests.vector.worlds import same


DEAD = [4, 5]
OTHERS = [0, 1, 2, 3, 6, 7]

Pair = Callable[..., tuple[RemoteVectorEnv, Any]]


@pytest.fixture
def pair(docker: Any) -> Iterator[Pair]:
    """Return a function that makes ours, on four containers, and Gymnasium's own."""
    image("gymnasium")
    made: list[Any] = []

    def make(mode: AutoresetMode = AutoresetMode.NEXT_STEP, **kwargs: Any) -> Any:
        ours = gymnasium.make_vec(
            "openenv/CartPole-v1",
            num_envs=8,
            num_servers=4,
            provider="docker",
            autoreset_mode=mode,
            **kwargs,
        )
        made.append(ours)
        theirs = SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")] * 8, autoreset_mode=mode)
        made.append(theirs)
        theirs.action_space.seed(5)
        same(ours.reset(seed=1), theirs.reset(seed=1))
        return ours, theirs

    yield make
    for env in made:
        env.close()


def kill(docker: Any, env: RemoteVectorEnv, index: int) -> None:
    server: Any = env._fleet.members[index]._release
    docker.containers.get(server.__self__.container_id).kill()


def reset_ended(env: Any, step: Any) -> Any:
    over = np.logical_or(step[2], step[3])
    return env.reset(options={"reset_mask": over}) if over.any() else None


def test_a_loss_is_an_error(docker: Any, pair: Pair) -> None:
    ours, theirs = pair()
    for _ in range(50):
        actions = theirs.action_space.sample()
        same(ours.step(actions), theirs.step(actions))
    kill(docker, ours, 2)
    with pytest.raises(
        errors.ConnectionLostError, match="Sub-environments 4, 5 are lost"
    ) as caught:
        ours.step(actions)
    assert caught.value.data["indices"] == DEAD
    sent = [member.connection.frames_sent for member in ours._fleet.members]
    for call in (ours.reset, lambda: ours.step(actions), lambda: ours.call("gravity")):
        with pytest.raises(errors.SessionClosedError, match="Sub-environments 4, 5 are lost"):
            call()
    assert [member.connection.frames_sent for member in ours._fleet.members] == sent


@pytest.mark.parametrize("mode", AutoresetMode)
def test_a_lost_server_is_replaced(docker: Any, pair: Pair, mode: AutoresetMode) -> None:
    ours, theirs = pair(mode, on_failure="restart")
    reported = []
    last = None
    for number in range(300):
        actions = theirs.action_space.sample()
        ours.step_async(actions)
        if number == 59:
            # Whether it has answered this step, nobody can know: it tells now or in the next one.
            kill(docker, ours, 2)
        got, expected = ours.step_wait(), theirs.step(actions)
        same_for(OTHERS, got, expected)
        assert not any("server_restarted" in infos_of(got[4], index) for index in OTHERS)
        if "server_restarted" in got[4]:
            reported.append(number)
            assert last is not None
            for index in DEAD:
                infos = infos_of(got[4], index)
                assert infos["server_restarted"] == 1
                assert (got[1][index], got[2][index], got[3][index]) == (0, False, True)
                shown = got[0][index] if mode is not AutoresetMode.SAME_STEP else infos["final_obs"]
                same(shown, last[index])
        last = got[0]
        if mode is AutoresetMode.DISABLED:
            again, expected_again = reset_ended(ours, got), reset_ended(theirs, expected)
            if again is not None:
                last = again[0]
                if expected_again is not None:
                    same(again[0][OTHERS], expected_again[0][OTHERS])
    assert reported in ([59], [60])
    # Seeded anew, those that were lost are like all others.
    same(ours.reset(seed=9), theirs.reset(seed=9))
    for _ in range(100):
        actions = theirs.action_space.sample()
        got, expected = ours.step(actions), theirs.step(actions)
        same(got, expected)
        if mode is AutoresetMode.DISABLED:
            same(reset_ended(ours, got), reset_ended(theirs, expected))


def test_a_lost_server_is_replaced_between_send_and_recv(docker: Any, pair: Pair) -> None:
    ours, theirs = pair(on_failure="restart")
    told = 0
    for number in range(200):
        actions = theirs.action_space.sample()
        ours.send(actions)
        if number == 59:
            kill(docker, ours, 2)
        batch, expected = ours.recv(min_envs=8), theirs.step(actions)
        assert sorted(batch.env_ids.tolist()) == list(range(8))
        for place, index in enumerate(batch.env_ids.tolist()):
            infos = infos_of(batch.infos, place)
            if index in DEAD:
                told += infos.get("server_restarted", 0)
                continue
            assert infos == {}
            found = [batch.observations, batch.rewards, batch.terminations, batch.truncations]
            same([each[place] for each in found], [each[index] for each in expected[:4]])
    assert told == 2


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_outlives_a_trainer_in_the_middle_of_a_rollout(docker: Any, signum: int) -> None:
    image("gymnasium")
    owner = Owner(
        docker,
        """
        import gymnasium, openenv_gym

        env = gymnasium.make_vec(
            "openenv/CartPole-v1", num_envs=8, num_servers=4, provider="docker"
        )
        env.reset(seed=0)
        env.step(env.action_space.sample())
        print("ready", flush=True)
        while True:
            env.step(env.action_space.sample())
        """,
    )
    assert len(owner.containers) == len(owner.directories) == 4
    assert len(owner.guardians) == 1
    owner.process.send_signal(signum)
    owner.end()
    assert eventually(lambda: not owner.leftovers(), 60), owner.leftovers()
