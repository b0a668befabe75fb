"""Chess in its container, with Stockfish."""

from __future__ import annotations

from typing import Any

import chess
import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import openenv_gym
from tests.support.images import image, run_inside

from .play import choose, make, play, same


pytestmark = [pytest.mark.container, pytest.mark.timeout(600)]  # the first has the image built

ID = "openenv/Chess-v0"


@pytest.fixture(autouse=True)
def _prepared(docker: Any) -> None:
    image("chess_env")


def remote(**options: Any) -> gymnasium.Env[Any, Any]:
    return gymnasium.make(ID, provider="docker", **options)


def test_the_checker_finds_nothing() -> None:
    env = remote()
    check_env(env.unwrapped, skip_render_check=True)
    env.close()


def test_a_thousand_random_steps_are_those_of_the_environment_itself() -> None:
    options = {"action": "discrete", "observation": "planes", "agent_color": "random"}
    env = remote(**options)
    there = play(env, 1_000, 11)
    assert all(step[0] in env.observation_space for step in there)
    assert same(there, play(make(**options), 1_000, 11))
    env.close()


def test_any_sample_of_the_space_is_taken() -> None:
    env = remote()
    env.reset(seed=0)
    env.action_space.seed(0)
    for _ in range(30):
        _, reward, *ended, info = env.step(env.action_space.sample())
        assert (reward, ended, info["illegal_move"]) == (-0.1, [False, False], True)
    env.close()


@pytest.mark.parametrize("strength", [{"nodes": 300}, {"skill": 4}], ids=str)
def test_stockfish_plays_the_same_for_equal_seeds(strength: dict[str, int]) -> None:
    games = []
    for _ in range(2):
        env = remote(opponent="stockfish", agent_color="random", **strength)
        games.append(play(env, 40, 2))
        env.close()
    assert same(*games)


@pytest.mark.parametrize("color", ["white", "black"])
def test_a_game_against_stockfish_to_mate(color: str) -> None:
    """Each move is checked on a board that the environment knows nothing of."""
    env = remote(opponent="stockfish", nodes=2_000, agent_color=color)
    board = chess.Board()
    random = np.random.default_rng(1)
    observation, info = env.reset(seed=1)
    terminated = False
    while not terminated:
        if info["opponent_move"] is not None:
            board.push(board.parse_uci(info["opponent_move"]))  # raises where it is illegal
        assert observation["fen"] == board.fen()
        assert set(observation["legal_moves"]) == {move.uci() for move in board.legal_moves}
        assert observation["is_check"] == board.is_check()
        move = choose(random, observation, info)
        board.push(board.parse_uci(move))
        observation, reward, terminated, truncated, info = env.step(move)
        assert not truncated
        assert info["move"] == move
    if info["opponent_move"] is not None:
        board.push(board.parse_uci(info["opponent_move"]))
    assert board.is_checkmate() and observation["fen"] == board.fen()
    assert (reward, info["termination"]) == (-1.0, "checkmate")
    assert observation["result"] == (1 if color == "white" else 0)  # "0-1", "1-0"
    assert [move.uci() for move in board.move_stack] == history(env)
    env.close()


def history(env: gymnasium.Env[Any, Any]) -> list[str]:
    saved: Any = env.unwrapped
    moves: list[str] = saved.save_state()["moves"]
    return moves


def test_an_engine_ends_with_its_session(docker: Any) -> None:
    with openenv_gym.start_server(ID, provider="docker") as server:
        container = docker.containers.get(server.running.container_id)
        env = gymnasium.make(ID, server=server, opponent="stockfish", nodes=100)
        env.reset(seed=0)
        env.step("e2e4")
        assert any("stockfish" in " ".join(row) for row in container.top()["Processes"])
        env.close()
        again = gymnasium.make(ID, server=server)
        again.reset(seed=0)
        assert not any("stockfish" in " ".join(row) for row in container.top()["Processes"])
        again.close()


def test_what_the_image_holds(docker: Any) -> None:
    labels = docker.api.inspect_image(image("chess_env"))["Config"]["Labels"]
    assert labels["org.opencontainers.image.licenses"] == "GPL-3.0-or-later"
    code = """
        import importlib.util, os, subprocess
        said = subprocess.run(["/usr/games/stockfish", "quit"], capture_output=True, text=True)
        print(said.stdout.split()[0], os.getuid(), os.path.exists("/usr/share/doc/stockfish/copyright"))
    """
    assert run_inside(docker, image("chess_env"), code) == "Stockfish 65534 True"
