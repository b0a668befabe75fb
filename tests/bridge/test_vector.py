"""`make_vec` on servers that speak OpenEnv's JSON: a session for each sub-environment."""

from __future__ import annotations

import asyncio
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import openenv_gym
from openenv_gym import errors
from tests.bridge.worlds import SCHEMA, corridor
from tests.support.fake_openenv import FakeOpenEnv, Gate
from tests.support.waiting import eventually


assert openenv_gym

LEFT, RIGHT = 0, 1


def fake(script: Any = corridor, **options: Any) -> FakeOpenEnv:
    return FakeOpenEnv(script, schema=SCHEMA, **options)


def make_vec(url: Any, num_envs: int, **options: Any) -> Any:
    return gymnasium.make_vec("openenv/Remote-v0", num_envs=num_envs, base_url=url, **options)


def test_each_sub_environment_has_a_session() -> None:
    with fake() as server:
        envs = make_vec(server.url, 4)
        seen, infos = envs.reset(seed=[1, 2, 3, 9])
        assert seen["place"].tolist() == [1, 2, 3, 4]
        assert infos["asked"]["seed"].tolist() == [1, 2, 3, 9]
        seen, rewards, *_ = envs.step([RIGHT, LEFT, RIGHT, LEFT])
        assert seen["place"].tolist() == [2, 1, 4, 3]
        assert rewards.tolist() == [-0.5] * 4
        assert server.active == 4
        envs.close()
        assert eventually(lambda: server.active == 0)


class Meeting:
    """A script whose steps and resets end when so many sessions are in one at the same time."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.there = 0
        self.full = asyncio.Event()

    async def __call__(self, session: Any, message: dict[str, Any]) -> Any:
        if message["type"] in ("reset", "step"):
            self.there += 1
            if self.there == self.size:
                self.there = 0
                met, self.full = self.full, asyncio.Event()
                met.set()
            else:
                await asyncio.wait_for(self.full.wait(), 100)
        return corridor(session, message)


@pytest.mark.parametrize("count", [3, 80])
def test_all_are_in_their_steps_at_once(count: int) -> None:
    with fake(Meeting(count)) as server:
        envs = make_vec(server.url, count)
        envs.reset(options={"start": 5})
        for _ in range(2):
            seen, *_ = envs.step(np.full(count, RIGHT))
        assert seen["place"].tolist() == [7] * count
        envs.close()


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_every_autoreset_mode_does_what_gymnasium_does(mode: AutoresetMode) -> None:
    """Against Gymnasium's own vector environment, made of single bridges."""
    with fake() as server:

        def one() -> Any:
            return gymnasium.make("openenv/Remote-v0", base_url=server.url)

        theirs = gymnasium.vector.SyncVectorEnv([one] * 3, autoreset_mode=mode)
        ours = make_vec(server.url, 3, autoreset_mode=mode)
        options = {"start": 8}
        assert_same(theirs.reset(options=options), ours.reset(options=options))
        rng = np.random.default_rng(1)
        for _ in range(45):
            actions = rng.integers(0, 2, 3)
            a, b = theirs.step(actions), ours.step(actions)
            assert_same(a, b)
            over = a[2] | a[3]
            if mode is AutoresetMode.DISABLED and over.any():
                mask = {"reset_mask": over, "start": 7}
                assert_same(theirs.reset(options=dict(mask)), ours.reset(options=dict(mask)))
        theirs.close()
        ours.close()


def assert_same(a: Any, b: Any) -> None:
    if isinstance(a, dict):
        assert a.keys() == b.keys()
        for key in a:
            assert_same(a[key], b[key])
    elif isinstance(a, (tuple, list)):
        assert len(a) == len(b)
        for one, other in zip(a, b, strict=True):
            assert_same(one, other)
    elif isinstance(a, np.ndarray) and a.dtype == object:
        assert_same(a.tolist(), b.tolist())
    else:
        np.testing.assert_array_equal(a, b)


def test_partial_batches() -> None:
    gate = Gate(lambda data: data.get("direction") == "LEFT", corridor)
    with fake(gate) as server:
        envs = make_vec(server.url, 3)
        envs.reset(options={"start": 5})
        envs.send([LEFT, RIGHT, RIGHT])
        soon = envs.recv(min_envs=2)
        assert sorted(soon.env_ids.tolist()) == [1, 2]
        assert soon.observations["place"].tolist() == [6, 6]
        server.run(gate.open())
        late = envs.recv(min_envs=1)
        assert (late.env_ids.tolist(), late.observations["place"].tolist()) == ([0], [4])
        envs.close()


def test_several_servers() -> None:
    with fake() as first, fake() as second:
        envs = make_vec([first.url, second.url], 5)
        seen, _ = envs.reset(seed=[0, 1, 2, 3, 4])
        assert seen["place"].tolist() == [0, 1, 2, 3, 4]
        assert (first.active, second.active) == (3, 2)
        envs.step([RIGHT] * 5)
        envs.close()


def test_a_server_with_too_few_places_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openenv_gym.bridge.session._FREE_S", 0.3)
    with fake(max_sessions=2) as server:
        with pytest.raises(errors.CapacityError) as caught:
            make_vec(server.url, 4)
        assert caught.value.data["capacity"] == 2
        assert eventually(lambda: server.active == 0)
        make_vec(server.url, 2).close()


def test_a_connection_that_breaks_names_whose_it_was_and_reset_goes_on() -> None:
    with fake() as server:
        envs = make_vec(server.url, 3)
        envs.reset()
        server.kill_connections()
        with pytest.raises((errors.ConnectionLostError, errors.SessionLostError)) as caught:
            envs.step([RIGHT] * 3)
        assert caught.value.data["indices"] == [0, 1, 2]
        assert envs.reset(options={"start": 3})[0]["place"].tolist() == [3] * 3
        envs.close()


def test_on_failure_restart_begins_new_episodes() -> None:
    with fake() as server:
        envs = make_vec(server.url, 2, on_failure="restart")
        envs.reset(options={"start": 3})
        server.kill_connections()
        *_, truncations, _ = envs.step([RIGHT] * 2)
        assert truncations.tolist() == [True, True]
        envs.step([RIGHT] * 2)
        envs.step([RIGHT] * 2)
        envs.close()
