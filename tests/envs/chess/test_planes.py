"""Positions as planes, against a drawing square by square."""

from __future__ import annotations

import chess
import numpy as np
import pytest

from .play import choose, make


def drawn_slowly(board: chess.Board, player: chess.Color) -> np.ndarray:
    """Draw a position with nothing but what python-chess says of single squares."""
    planes = np.zeros((119, 8, 8), np.uint8)
    past = board.copy()
    for age in range(8):
        for square, piece in past.piece_map().items():
            rank, file = chess.square_rank(square), chess.square_file(square)
            row = rank if player else 7 - rank
            plane = 14 * age + piece.piece_type - 1 + 6 * (piece.color != player)
            planes[plane, row, file] = 1
        planes[14 * age + 12] = past.is_repetition(2)
        planes[14 * age + 13] = past.is_repetition(3)
        if not past.move_stack:
            break
        past.pop()
    planes[112] = not player
    planes[113] = board.fullmove_number
    for side, first in ((player, 114), (not player, 116)):
        planes[first] = board.has_kingside_castling_rights(side)
        planes[first + 1] = board.has_queenside_castling_rights(side)
    planes[118] = board.halfmove_clock
    return planes


@pytest.mark.parametrize("opponent", ["random", "self"])
@pytest.mark.parametrize("color", ["white", "black"])
def test_planes_show_what_is_on_the_squares(opponent: str, color: str) -> None:
    if opponent == "self":
        color = "white"
    env = make(action="discrete", observation="planes", opponent=opponent, agent_color=color)
    assert env.observation_space.shape == (119, 8, 8)
    random = np.random.default_rng(3)
    for seed in range(2):
        observation, info = env.reset(seed=seed)
        for _ in range(60):
            board = env.environment._game.board
            player = board.turn if opponent == "self" else color == "white"
            assert observation in env.observation_space
            assert np.array_equal(observation, drawn_slowly(board, player))
            assert info["fen"] == board.fen()
            observation, _, *ended, info = env.step(choose(random, observation, info))
            if any(ended):
                break


def test_repetitions_are_told() -> None:
    env = make(observation="planes", opponent="self")
    env.reset()
    told = []
    for move in ("g1f3", "g8f6", "f3g1", "f6g8") * 2:
        planes, *_ = env.step(move)
        told.append((int(planes[12, 0, 0]), int(planes[13, 0, 0])))
    assert told == [(0, 0)] * 3 + [(1, 0)] * 4 + [(1, 1)]


def test_long_games_stay_within_their_bytes() -> None:
    env = make(observation="planes", fen="4k3/8/8/8/8/8/8/R3K3 w Q - 12 700", claim_draws=False)
    planes, _ = env.reset()
    assert planes in env.observation_space
    assert (planes[113] == 255).all() and (planes[118] == 12).all()
