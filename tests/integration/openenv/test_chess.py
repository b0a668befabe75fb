"""OpenEnv's client plays chess on our server."""

from __future__ import annotations

import subprocess

import chess
import pytest

from tests.integration.openenv.running import openenv_program, ours
from tests.integration.openenv.test_their_client import drive


pytestmark = [pytest.mark.openenv, pytest.mark.timeout(300)]


def test_moves_and_state() -> None:
    script = [
        ["reset", {"seed": 1}],
        ["step", {"move": "e2e4"}],
        ["step", {"move": "e2e4"}],
        ["state"],
    ]
    with ours("chess_env") as url:
        first, second, illegal, state = drive(url, script)
    assert first["observation"]["fen"] == chess.STARTING_FEN
    assert len(first["observation"]["legal_moves"]) == 20
    assert first["observation"]["result"] is None and first["done"] is False
    board = chess.Board()
    board.push_uci("e2e4")
    board.push_uci(second["metadata"]["opponent_move"])
    assert second["observation"]["fen"] == board.fen()
    assert (second["reward"], second["done"]) == (0.0, False)
    assert (illegal["reward"], illegal["done"]) == (-0.1, False)
    assert illegal["observation"]["fen"] == board.fen()
    assert state["fen"] == board.fen() and state["current_player"] == "white"
    assert state["move_history"] == [move.uci() for move in board.move_stack]


def test_a_game_to_mate() -> None:
    script = [["reset", {}], *(["step", {"move": move}] for move in ("f2f3", "e7e5", "g2g4"))]
    with ours("chess_env", "--option", "opponent=self") as url:
        *_, last = drive(url, [*script, ["step", {"move": "d8h4"}]])
    assert (last["reward"], last["done"]) == (1.0, True)
    assert last["observation"]["result"] == "0-1"
    assert last["observation"]["is_check"] is True
    assert last["observation"]["legal_moves"] == []


def test_numbers_and_planes_cross_json() -> None:
    options = ("--option", "action=discrete", "--option", "observation=planes")
    with ours("chess_env", *options) as url:
        first, second = drive(url, [["reset", {"seed": 1}], ["step", {"action_id": 12 * 73 + 1}]])
    planes = first["observation"]["planes"]
    assert (len(planes), len(planes[0]), len(planes[0][0])) == (119, 8, 8)
    assert planes[0][1] == [1] * 8  # White's pawns
    assert sum(first["metadata"]["action_mask"]) == 20
    assert second["metadata"]["move"] == "e2e4"


def test_the_validator_passes() -> None:
    with ours("chess_env") as url:
        command = [openenv_program("openenv"), "validate", "--url", url]
        done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Verdict: PASS" in done.stdout and "FAIL" not in done.stdout
