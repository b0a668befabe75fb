"""The package: models, manifest, application, tools, client, prompts, rubrics."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import chess
import gymnasium
import numpy as np
import pytest

import chess_env
import openenv_gym  # noqa: F401  # registers the ids
from chess_env import ChessAction, ChessEnv, draw_board, find_move, move_prompt
from chess_env.server.app import app
from chess_env.server.chess_environment import ChessEnvironment
from openenv_gym.errors import InvalidActionError
from openenv_gym.models import CallToolAction, ListToolsAction
from openenv_gym.models.manifest import load_manifest
from openenv_gym.rubrics import Rubric
from tests.support.serving import serving

from .play import choose, make, play, same


PACKAGE = Path(chess_env.__file__).parent


def test_importing_the_package_does_not_load_the_rules() -> None:
    check = "import sys, chess_env; sys.exit('chess' in sys.modules)"
    subprocess.run(
        [sys.executable, "-c", check], check=True, env={"PYTHONPATH": ":".join(sys.path)}
    )


def test_manifest_agrees_with_the_code() -> None:
    manifest = load_manifest(PACKAGE / "openenv.yaml")
    assert (manifest.name, manifest.license) == ("chess_env", "GPL-3.0-or-later")
    assert (manifest.distribution, manifest.image) == ("openenv-gym-chess", "openenv-gym-chess")
    (entry,) = manifest.ids
    assert (entry.id, entry.kwargs) == ("Chess-v0", {})
    assert list(entry.render_modes or ()) == ChessEnvironment.metadata["render_modes"]
    assert entry.render_fps == ChessEnvironment.metadata["render_fps"]


def test_app_makes_environments() -> None:
    host = app.open({"opponent": "self"})
    host.execute("reset", [5])
    value, _ = host.execute("step", ["e2e4"])
    assert value[0]["fen"] == "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - 0 1"
    assert value[1:4] == [0.0, False, False]
    state = host.execute("state", [])[0]
    assert (state["current_player"], state["move_history"]) == ("black", ["e2e4"])
    legal = host.execute("describe_actions", [])[0]["legal"]
    assert {"move": "e7e5"} in legal and len(legal) == 20
    host.close()


def test_numbers_that_are_legal_are_told_to_agents() -> None:
    host = app.open({"action": "discrete"})
    info = host.execute("reset", [5])[0][1]
    legal = host.execute("describe_actions", [])[0]["legal"]
    assert (
        sorted(each["action_id"] for each in legal) == np.flatnonzero(info["action_mask"]).tolist()
    )
    host.close()


# -- through the library ----------------------------------------------------------------------------


def test_a_server_plays_as_the_environment_itself_does() -> None:
    for options in ({"agent_color": "random"}, {"action": "discrete", "observation": "planes"}):
        far = gymnasium.make("openenv/Chess-v0", provider="thread", **options)
        assert same(play(far, 60, 9), play(make(**options), 60, 9))
        far.close()


def test_what_can_be_asked_from_afar() -> None:
    env = gymnasium.make("openenv/Chess-v0", provider="thread", render_mode="rgb_array")
    env.reset(seed=0)
    env.step("e2e4")
    far: Any = env.unwrapped
    saved, picture, prompt = far.save_state(), env.render(), far.prompt()
    assert picture.shape == (384, 384, 3)
    assert prompt == move_prompt(
        saved_board(saved).fen(), [move.uci() for move in saved_board(saved).legal_moves]
    )
    step = env.step("d2d4")
    assert far.prompt() != prompt
    far.restore_state(saved)
    assert far.prompt() == prompt
    assert same(env.step("d2d4"), step)
    env.close()


def saved_board(saved: dict[str, Any]) -> chess.Board:
    board = chess.Board(saved["start_fen"])
    for move in saved["moves"]:
        board.push_uci(move)
    return board


def test_many_games_at_once() -> None:
    envs = gymnasium.make_vec(
        "openenv/Chess-v0",
        num_envs=3,
        provider="thread",
        num_servers=1,
        action="discrete",
        observation="planes",
        max_moves=20,
    )
    single = make(action="discrete", observation="planes", max_moves=20)
    planes, infos = envs.reset(seed=4)
    expected, info = single.reset(seed=5)
    random = np.random.default_rng(0)
    for _ in range(8):
        assert np.array_equal(planes[1], expected)
        assert np.array_equal(infos["action_mask"][1], info["action_mask"])
        actions = [choose(random, None, {"action_mask": mask}) for mask in infos["action_mask"]]
        planes, rewards, *_, infos = envs.step(np.array(actions))
        expected, reward, *_, info = single.step(actions[1])
        assert rewards[1] == reward
    envs.close()


# -- agents -----------------------------------------------------------------------------------------


def test_tools_play() -> None:
    environment = ChessEnvironment(opponent="self")
    environment.reset()
    names = [each.name for each in environment.step(ListToolsAction()).tools]
    assert names == ["legal_moves", "play_move", "show_board"]

    def call(name: str, **arguments: Any) -> Any:
        return environment.step(CallToolAction(tool_name=name, arguments=arguments))

    assert len(call("legal_moves").result) == 20
    wrong = call("play_move", move="e2e5")
    assert (wrong.result["illegal_move"], wrong.reward, wrong.done) == (True, -0.1, False)
    for move in ("f2f3", "e7e5", "g2g4"):
        step = call("play_move", move=move)
        assert (step.reward, step.done, step.result["result"]) == (0.0, False, None)
    assert "Black (small letters) to move" in call("show_board").result
    last = call("play_move", move="d8h4")
    assert (last.reward, last.done, last.truncated) == (1.0, True, False)
    assert (last.result["result"], last.result["termination"]) == ("0-1", "checkmate")
    assert call("legal_moves").result == []
    assert call("play_move", move="a2a3").error.error_type.value == "execution_error"
    assert call("play_move").error.error_type.value == "invalid_args"
    environment.close()


def test_the_typed_client_plays() -> None:
    with serving(app) as url, ChessEnv(base_url=url).sync() as client:
        first = client.reset(seed=1, fen="4k3/4p3/8/8/8/8/4P3/4K3 w - - 0 1")
        assert "e2e4" in first.observation.legal_moves
        second = client.step(ChessAction(move="e2e4"))
        assert (second.reward, second.done) == (0.0, False)
        assert second.metadata["move"] == "e2e4"
        assert client.step(ChessAction(move="castle!")).reward == -0.1
        assert client.state().move_history[0] == "e2e4"
        assert client.call_tool("legal_moves")
        with pytest.raises(InvalidActionError):
            client.step({"mvoe": "e2e4"})


def test_prompts() -> None:
    assert draw_board("4k3/8/8/8/8/8/4P3/4K3 w - - 0 1").splitlines()[6:] == [
        "2  . . . . P . . .",
        "1  . . . . K . . .",
        "",
        "   a b c d e f g h",
    ]
    text = move_prompt(chess.STARTING_FEN, ["e2e4", "d2d4"])
    assert "White (capitals) to move." in text and text.endswith("Legal moves: e2e4 d2d4")
    assert "the game is over" in move_prompt("8/8/8/8/8/8/8/K1k5 b - - 0 1", [])
    for reply, move in (
        ("e2e4", "e2e4"),
        ("I thought of d2d4, but I play **e7e8q**.", "e7e8q"),
        ("move: g1f3\n", "g1f3"),
        ("xe2e4 be2e45", "xe2e4 be2e45"),
        ("Nf3", "Nf3"),
        ("", ""),
    ):
        assert find_move(reply) == move


class Checks(Rubric):
    """Half a point for giving check, and what the game itself gives."""

    def forward(self, action: Any, observation: Any) -> float:
        return 0.5 * observation.is_check + observation.reward


def test_a_rubric_takes_the_place_of_the_reward() -> None:
    env = make(opponent="self", rubric=Checks())
    env.reset()
    steps = [env.step(move) for move in ("f2f3", "e7e5", "g2g4", "", "d8h4")]
    assert [step[1] for step in steps] == [0.0, 0.0, 0.0, -0.1, 1.5]
