"""PettingZoo's own tests find nothing in a remote environment that they do not find locally."""

from __future__ import annotations

import itertools
import time
import types
from typing import Any

import pettingzoo
import pytest
from pettingzoo.utils.conversions import parallel_to_aec

from openenv_gym.pettingzoo import aec_env, parallel_env
from tests.multi_agent.worlds import Sums
from tests.support.zoo import state_test, warned, zoo


WORLDS = "tests.multi_agent.worlds"
IN_TURN = ["classic/connect_four-v3", "classic/tictactoe-v3", "classic/leduc_holdem-v4"]


@pytest.fixture(autouse=True)
def _without_a_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setenv("SDL_AUDIODRIVER", "dummy")


@pytest.mark.parametrize("name", [*IN_TURN, "classic/texas_holdem-v4", "classic/rps-v2"])
def test_api_test(name: str) -> None:
    here = warned(zoo.api_test, pettingzoo.make("aec", name), num_cycles=50)
    env = aec_env(name, provider="thread")
    assert isinstance(env, pettingzoo.AECEnv)
    assert warned(zoo.api_test, env, num_cycles=50) <= here
    env.close()


def test_api_test_of_agents_that_come_and_go() -> None:
    env = aec_env(f"{WORLDS}:generated_aec", provider="thread")
    assert not hasattr(env, "possible_agents")
    warned(zoo.api_test, env, num_cycles=100)
    assert len(env.observation_spaces) > 3
    env.close()


@pytest.mark.parametrize(
    "name", ["classic/rps-v2", f"{WORLDS}:Sums", f"{WORLDS}:generated_parallel"]
)
def test_parallel_api_test(name: str) -> None:
    env = parallel_env(name, provider="thread")
    assert isinstance(env, pettingzoo.ParallelEnv)
    found = warned(zoo.parallel_api_test, env, num_cycles=100)
    assert {each for each in found if "possible_agents" not in each} == set()
    env.close()


def test_a_parallel_environment_in_turn() -> None:
    env = aec_env(f"{WORLDS}:Sums", provider="thread")
    warned(zoo.api_test, env, num_cycles=50)
    env.close()


@pytest.mark.parametrize("name", ["classic/connect_four-v3", "classic/texas_holdem-v4"])
def test_an_environment_in_turn_as_parallel(name: str) -> None:
    env = parallel_env(name, provider="thread")
    observations, infos = env.reset(seed=3)
    assert set(observations) == set(env.agents) == {"player_0", "player_1"}
    agent = env.agents[0]
    for each in env.possible_agents:
        env.action_space(each).seed(7)
    for _ in range(200):
        if not env.agents:
            break
        agent = infos[env.agents[0]].get("active_agent", agent)
        mask = observations[agent]["action_mask"]
        action = env.action_space(agent).sample(mask)
        observations, rewards, terminations, _, infos = env.step({agent: action})
    assert not env.agents and all(terminations.values())
    assert rewards["player_0"] == -rewards["player_1"]
    env.close()


def test_seed_test() -> None:
    warned(zoo.seed_test, lambda: aec_env("classic/texas_holdem-v4", provider="thread"), 30)
    warned(zoo.parallel_seed_test, lambda: parallel_env(f"{WORLDS}:Sums", provider="thread"), 30)


def test_render_test(monkeypatch: pytest.MonkeyPatch) -> None:
    pygame = pytest.importorskip("pygame")
    clock = types.SimpleNamespace(tick=lambda fps: None)  # one frame a second is long
    monkeypatch.setattr(pygame.time, "Clock", lambda: clock)
    made: list[Any] = []

    def make(**options: Any) -> Any:
        made.append(aec_env("classic/tictactoe-v3", provider="thread", **options))
        return made[-1]

    warned(zoo.render_test, make)
    assert [env.render_mode for env in made[1:]] == made[0].metadata["render_modes"]
    for env in made:
        env.close()


def test_state_test() -> None:
    in_turn = aec_env(f"{WORLDS}:Sums", provider="thread")
    at_once = parallel_env(f"{WORLDS}:Sums", provider="thread")
    assert at_once.state_space == Sums().state_space
    here = warned(state_test, parallel_to_aec(Sums()), Sums(), 20)
    assert warned(state_test, in_turn, at_once, 20) <= here
    in_turn.close()
    at_once.close()


def test_performance_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count(step=0.5)  # its five seconds are over sooner
    monkeypatch.setattr(time, "time", lambda: float(next(clock)))
    env = aec_env("classic/rps-v2", provider="thread")
    warned(zoo.performance_benchmark, env)
    env.close()
