"""What a remote environment does that PettingZoo's tests do not ask for."""

from __future__ import annotations

import copy
import pickle
import sys
import textwrap
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pettingzoo
import pytest
from gymnasium.utils.env_checker import data_equivalence

import openenv_gym
from openenv_gym import errors
from openenv_gym.pettingzoo import RemoteAECEnv, aec_env, parallel_env
from tests.multi_agent.worlds import Cards, Sums
from tests.support.serving import serving


CARDS = "tests.multi_agent.worlds:Cards"
SUMS = "tests.multi_agent.worlds:Sums"
CLASSICS = ["connect_four-v3", "tictactoe-v3", "leduc_holdem-v4", "texas_holdem-v4", "rps-v2"]


def same(a: Any, b: Any) -> bool:
    return bool(data_equivalence(a, b))


@pytest.mark.parametrize("name", CLASSICS)
def test_a_game_is_that_of_the_local_environment(name: str) -> None:
    here = pettingzoo.make("aec", f"classic/{name}")
    there = aec_env(f"classic/{name}", provider="thread")
    for seed in (3, None):  # and goes on in the second episode as it does here
        if seed is None and "holdem" in name:
            break  # whose generator is that of the process
        here.reset(seed=seed)
        there.reset(seed=seed)
        generator = np.random.default_rng(5)
        while here.agents:
            assert there.agents == here.agents
            assert there.agent_selection == here.agent_selection
            assert same(there.last(), here.last())
            for agent in here.agents:
                assert same(there.observe(agent), here.observe(agent))
            for values in ("rewards", "_cumulative_rewards", "terminations", "infos"):
                assert same(getattr(there, values), getattr(here, values))
            observation, _, terminated, truncated, _ = here.last()
            action = None
            if not (terminated or truncated):
                mask = observation["action_mask"] if isinstance(observation, dict) else [1] * 3
                action = int(generator.choice(np.flatnonzero(mask)))
            here.step(action)
            there.step(action)
        assert there.agents == []
    here.close()
    there.close()


def test_a_parallel_game_is_that_of_the_local_environment() -> None:
    here, there = Sums(players=4), parallel_env(SUMS, provider="thread", players=4)
    generator = np.random.default_rng(1)
    for seed in (7, None, None):
        options = {"a": seed}
        assert same(there.reset(seed, options), here.reset(seed, options))
        while here.agents:
            assert same(there.state(), here.state())
            actions = {agent: int(generator.integers(4)) for agent in here.agents}
            assert same(there.step(actions), here.step(actions))
            assert there.agents == here.agents
    there.close()


def test_a_turn_is_one_request() -> None:
    env = aec_env(CARDS, provider="thread")
    env.reset(seed=1)
    before = env.openenv.connection.frames_sent
    for _ in range(4):
        env.last()
        assert env.rewards and env.infos and env.num_agents == 2
        env.step(1)
    assert env.openenv.connection.frames_sent == before + 4
    env.close()


def test_spaces_are_the_same_objects_and_the_agents_own() -> None:
    env = parallel_env(SUMS, provider="thread")
    first, second = (env.action_space(agent) for agent in env.possible_agents[:2])
    assert first is env.action_space("player_0") and first is not second
    assert list(env.action_spaces) == list(env.observation_spaces) == env.possible_agents
    assert env.max_num_agents == 3
    with pytest.raises(KeyError):
        env.action_space("player_9")
    env.close()


def test_before_a_reset() -> None:
    env = aec_env(CARDS, provider="thread")
    for name in ("agents", "rewards", "agent_selection", "infos"):
        assert not hasattr(env, name)
    with pytest.raises(errors.ResetNeededError):
        env.step(1)
    with pytest.raises(errors.ResetNeededError):
        env.state()
    env.close()


def test_a_step_after_the_end() -> None:
    env = aec_env(CARDS, provider="thread")
    env.reset()
    env.step(9)
    env.step(None)
    env.step(None)
    assert env.agents == []
    with pytest.raises(errors.ResetNeededError):
        env.step(1)
    env.reset()
    assert env.agents == env.possible_agents
    env.close()


def test_an_exception_is_what_it_is_locally() -> None:
    env = aec_env(CARDS, provider="thread")
    env.reset()
    with pytest.raises(RuntimeError, match="look at these") as caught:
        env.step(8)
    assert isinstance(caught.value, errors.EnvironmentFailedError)
    env.step(1)
    with pytest.raises(ValueError, match="only valid action is None"):
        env.step(9)
        env.step(1)
    env.close()


def test_attributes_are_those_of_the_environment() -> None:
    env = parallel_env(SUMS, provider="thread", length=2)
    assert env.length == 2
    env.length = 1
    env.reset()
    *_, truncations, _ = env.step(dict.fromkeys(env.agents, 1))
    assert all(truncations.values()) and env.agents == []
    with pytest.raises(AttributeError):
        _ = env.nothing
    assert env.unwrapped is env and str(env) == "sums"
    env.close()


def test_pictures() -> None:
    env = parallel_env(SUMS, provider="thread", render_mode="rgb_array")
    env.reset()
    env.step(dict.fromkeys(env.agents, 1))
    assert env.render().tolist() == np.ones((4, 4, 3), int).tolist()
    env.close()
    silent = parallel_env(SUMS, provider="thread")
    silent.reset()
    with pytest.warns(UserWarning, match="render_mode"):
        assert silent.render() is None
    silent.close()


def test_pickles_and_copies_are_environments_of_their_own() -> None:
    env = aec_env(CARDS, provider="thread", hand_size=5)
    copies = [pickle.loads(pickle.dumps(env)), copy.deepcopy(env)]
    for each in copies:
        assert isinstance(each, RemoteAECEnv)
        each.reset(seed=1)
        assert len(each.observe("player_0")["hand"]) == 5
        assert each.openenv.connection.session_name != env.openenv.connection.session_name
    with pytest.raises(TypeError, match="episode that has begun"):
        copy.deepcopy(copies[0])
    for each in (env, *copies):
        each.close()
        each.close()
    with pytest.raises(errors.SessionClosedError):
        env.reset()


def test_a_server_of_ones_own_functions() -> None:
    with serving(Cards) as url:
        env = aec_env(base_url=url, hand_size=7)
        env.reset()
        assert len(env.observe("player_1")["hand"]) == 7
        env.close()
        at_once = parallel_env(base_url=url)
        assert at_once.possible_agents == ["player_0", "player_1"]
        at_once.close()
        with pytest.raises(errors.InvalidOptionError, match="several agents"):
            openenv_gym.GenericEnvClient(base_url=url).sync().reset()


def test_a_process(tmp_path: Path) -> None:
    (tmp_path / "my_games.py").write_text(
        textwrap.dedent("""
        import numpy
        from tests.multi_agent.worlds import Sums

        def big(**options):
            return Sums(size=100_000, **options)
        """)
    )
    sys.path.insert(0, str(tmp_path))
    try:
        env = parallel_env("my_games:big", provider="process", players=2)
        observations, _ = env.reset(seed=1)
        kept = observations["player_1"]
        before = kept.copy()
        for _ in range(3):
            env.step(dict.fromkeys(env.agents, 1))
        assert kept.shape == (100_000,) and np.array_equal(kept, before)
        env.close()
    finally:
        sys.path.remove(str(tmp_path))


@pytest.mark.parametrize(
    ("target", "options", "field"),
    [
        (None, {}, "target"),
        ("", {}, "target"),
        (7, {}, "target"),
        ("openenv/Remote-v0", {}, "target"),
        ("no_such_module", {}, "env_id"),
        ("tests.multi_agent.worlds:Nothing", {}, "env_id"),
        ("tests.multi_agent.worlds", {}, "env_id"),
        ("tests.support.worlds:CountingEnv", {}, "multi_agent"),
        (SUMS, {"colour": "red"}, None),
        ("openenv/ConnectFour-v0", {"colour": "red"}, "colour"),
        ("openenv/Echo-v0", {}, "multi_agent"),
    ],
)
def test_what_cannot_be_had(target: Any, options: dict[str, Any], field: str | None) -> None:
    with pytest.raises(errors.InvalidOptionError) as caught:
        aec_env(target, provider="thread", **options)
    assert caught.value.field == field


def test_a_gymnasium_client_is_told_what_to_use() -> None:
    with serving(Sums) as url, pytest.raises(errors.InvalidOptionError, match="parallel_env"):
        gymnasium.make("openenv/Remote-v0", base_url=url)
