"""The package, the game for two, the client, and the container."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import connect4_env
import openenv_gym  # noqa: F401  # registers the ids
from connect4_env import Connect4Action, Connect4Env
from connect4_env.server.app import app
from connect4_env.server.connect4_environment import Connect4Environment
from connect4_env.server.two_players import TwoPlayers
from openenv_gym.errors import InvalidActionError, InvalidOptionError, ResetNeededError
from openenv_gym.models.manifest import load_manifest
from openenv_gym.pettingzoo import aec_env, join
from tests.support.serving import serving
from tests.support.zoo import warned, zoo

from .games import WINS, make, random_game


PACKAGE = Path(connect4_env.__file__).parent


def test_manifest_agrees_with_the_code() -> None:
    manifest = load_manifest(PACKAGE / "openenv.yaml")
    assert (manifest.name, manifest.license) == ("connect4_env", "MIT")
    assert (manifest.distribution, manifest.image) == (
        "openenv-gym-connect4",
        "openenv-gym-connect4",
    )
    (entry,) = manifest.ids
    assert entry.id == "ConnectFour-v0"
    assert list(entry.render_modes or ()) == Connect4Environment.metadata["render_modes"]
    assert entry.render_fps == Connect4Environment.metadata["render_fps"]


def test_a_server_for_one_agent_does_without_pettingzoo() -> None:
    check = (
        "import sys, connect4_env.server.app as a; a.app.open({}).close(); "
        "sys.exit('pettingzoo' in sys.modules)"
    )
    subprocess.run(
        [sys.executable, "-c", check], check=True, env={"PYTHONPATH": ":".join(sys.path)}
    )


def test_a_typed_client() -> None:
    with serving(app) as url, Connect4Env(base_url=url).sync() as client:
        result = client.reset(seed=3)
        assert result.observation.legal_actions == set(range(7))
        count = 0
        while not result.done:
            column = min(result.observation.legal_actions)
            result = client.step(Connect4Action(column=column))
            count += 1
        assert result.reward in (-1.0, 0.0, 1.0)
        state = client.state()
        assert state.step_count == count
        assert state.board == result.observation.board.tolist()


# -- two players ----------------------------------------------------------------------------------


def test_api_test() -> None:
    here = warned(zoo.api_test, TwoPlayers(), num_cycles=50)
    env = aec_env("openenv/ConnectFour-v0", provider="thread")
    assert warned(zoo.api_test, env, num_cycles=50) <= here
    env.close()


def test_it_is_the_game_of_pettingzoo() -> None:
    pettingzoo = pytest.importorskip("pettingzoo")
    theirs, ours = pettingzoo.make("aec", "classic/connect_four-v3"), TwoPlayers()
    generator = np.random.default_rng(2)
    for _ in range(20):
        theirs.reset()
        ours.reset()
        while ours.agents:
            assert (theirs.agents, theirs.agent_selection) == (ours.agents, ours.agent_selection)
            theirs_last, ours_last = theirs.last(), ours.last()
            assert theirs_last[1:4] == ours_last[1:4]
            both = zip(theirs_last[0].items(), ours_last[0].items(), strict=True)
            for (key, value), (our_key, our_value) in both:
                assert key == our_key and value.dtype == our_value.dtype
                if not ours_last[2]:  # at the end their mask still has columns
                    assert np.array_equal(value, our_value)
            action = None
            if not ours_last[2]:
                action = int(generator.choice(np.flatnonzero(ours_last[0]["action_mask"])))
            theirs.step(action)
            ours.step(action)


def test_an_illegal_move_loses() -> None:
    env = TwoPlayers()
    env.reset()
    for _ in range(6):
        env.step(0)
    env.step(0)
    assert env.rewards == {"player_0": -1.0, "player_1": 0.0}
    assert all(env.terminations.values())
    env.step(None)
    env.step(None)
    with pytest.raises(ResetNeededError):
        env.step(1)


def test_wrong_use_of_the_game() -> None:
    with pytest.raises(InvalidOptionError, match="render_mode"):
        TwoPlayers(render_mode="human")
    env = TwoPlayers(render_mode="rgb_array")
    env.reset()
    for action in (7, -1, "a", 1.5):
        with pytest.raises(InvalidActionError):
            env.step(action)
    env.step(np.int64(3))
    assert env.state()[5, 3] == 1 and env.render().shape == (192, 224, 3)


def test_two_clients_play_each_other() -> None:
    from concurrent.futures import ThreadPoolExecutor

    with serving(app) as url, ThreadPoolExecutor(2) as pool:

        def play(agent: str) -> float:
            seat = join(url, game="g", ticket="a ticket for tests", agent=agent)
            seat.reset()
            rewards = []
            for column in WINS["row"][int(agent[-1]) :: 2]:
                rewards.append(seat.step(column)[1])
            seat.close()
            return sum(rewards)

        assert list(pool.map(play, ["player_0", "player_1"])) == [1.0, -1.0]


# -- containers -----------------------------------------------------------------------------------


@pytest.mark.timeout(600)
def test_a_thousand_random_steps_in_a_container(docker: Any) -> None:
    from tests.support.images import image

    image("connect4_env")
    env = gymnasium.make(
        "openenv/ConnectFour-v0", provider="docker", opponent="minimax", depth=2, side="random"
    )
    here = make(opponent="minimax", depth=2, side="random")
    seen = random_game(env, 9, games=150)
    assert len(seen) > 1000
    assert seen == random_game(here, 9, games=150)
    env.close()


@pytest.mark.timeout(600)
def test_two_players_in_a_container(docker: Any) -> None:
    from tests.support.images import image

    image("connect4_env")
    env = aec_env("openenv/ConnectFour-v0", provider="docker")
    env.reset()
    for column in WINS["falling"]:
        env.step(column)
    assert env.rewards == {"player_0": 1.0, "player_1": -1.0}
    env.close()
