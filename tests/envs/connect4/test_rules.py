"""The rules, and the opponents."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from connect4_env.board import COLUMNS, ROWS, Board
from connect4_env.server.opponents import minimax, play_at_random

from .games import DRAW, SECOND_WINS, WINS


def board_of(columns: list[int]) -> Board:
    board = Board()
    for column in columns:
        board.play(column)
    return board


def has_four(cells: np.ndarray) -> bool:
    """Look for four in a row in the plain way."""
    for row, column in itertools.product(range(ROWS), range(COLUMNS)):
        for down, right in ((0, 1), (1, 0), (1, 1), (1, -1)):
            ends = row + 3 * down, column + 3 * right
            inside = 0 <= ends[0] < ROWS and 0 <= ends[1] < COLUMNS
            if inside and all(cells[row + i * down, column + i * right] for i in range(4)):
                return True
    return False


@pytest.mark.parametrize("how", WINS)
def test_four_in_a_row_win(how: str) -> None:
    board = board_of(WINS[how][:-1])
    assert board.winner is None and not board.over
    board.play(WINS[how][-1])
    assert board.winner == 0 and board.over and board.legal == []


def test_the_second_player_wins() -> None:
    assert board_of(SECOND_WINS).winner == 1


def test_a_draw() -> None:
    board = board_of(DRAW)
    assert (board.winner, board.full, board.over, board.legal) == (None, True, True, [])


def test_a_game_is_what_plain_rules_make_of_it() -> None:
    generator = np.random.default_rng(0)
    ends = set()
    for _ in range(100):
        board, plain = Board(), np.zeros((ROWS, COLUMNS), np.int8)
        while not board.over:
            assert board.legal == [c for c in range(COLUMNS) if plain[0, c] == 0]
            column = int(generator.choice(board.legal))
            sign = 1 if board.player == 0 else -1
            plain[max(row for row in range(ROWS) if plain[row, column] == 0), column] = sign
            board.play(column)
            assert np.array_equal(board.to_array(), plain)
            winners = [number for number, s in ((0, 1), (1, -1)) if has_four(plain == s)]
            assert winners == ([] if board.winner is None else [board.winner])
        ends.add(board.winner)
    assert {0, 1} <= ends


def test_undo() -> None:
    board = board_of(WINS["rising"])
    for count in range(len(WINS["rising"]), 0, -1):
        board.undo()
        assert np.array_equal(board.to_array(), board_of(WINS["rising"][: count - 1]).to_array())
    assert board.legal == list(range(COLUMNS))


def test_a_full_column() -> None:
    board = board_of([3] * 6)
    assert board.legal == [0, 1, 2, 4, 5, 6]
    for column in (3, -1, 7):
        with pytest.raises(ValueError):
            board.play(column)


@pytest.mark.parametrize("depth", [1, 2, 4])
@pytest.mark.parametrize("how", WINS)
def test_minimax_takes_a_win(how: str, depth: int) -> None:
    board = board_of(WINS[how][:-1])
    for seed in range(5):
        board_after = board_of([*board.moves, minimax(depth)(board, np.random.default_rng(seed))])
        assert board_after.winner == 0


def test_minimax_prevents_a_loss_that_it_sees() -> None:
    board = board_of([0, 1, 0, 1, 0])  # the first player threatens column 0
    assert minimax(2)(board, np.random.default_rng(1)) == 0
    seen = {minimax(1)(board, np.random.default_rng(seed)) for seed in range(30)}
    assert len(seen) > 1  # half a move ahead it sees nothing


def score(board: Board, depth: int) -> int:
    """Plain minimax, without windows."""
    if board.winner is not None:
        return -(1000 - len(board.moves))
    if depth == 0 or board.full:
        return 0
    best = -1000
    for column in board.legal:
        board.play(column)
        best = max(best, -score(board, depth - 1))
        board.undo()
    return best


def test_minimax_chooses_what_plain_search_chooses() -> None:
    generator = np.random.default_rng(3)
    for _ in range(12):
        board = Board()
        for _ in range(int(generator.integers(6, 24))):
            if not board.over:
                board.play(int(generator.choice(board.legal)))
        if board.over:
            continue
        scores = {}
        for column in board.legal:
            board.play(column)
            scores[column] = -score(board, 2)
            board.undo()
        best = {column for column in scores if scores[column] == max(scores.values())}
        chosen = {minimax(3)(board, np.random.default_rng(seed)) for seed in range(40)}
        assert chosen <= best and (len(best) == 1 or len(chosen) > 1)


def test_a_random_opponent_is_legal() -> None:
    board = board_of([3] * 6)
    generator = np.random.default_rng(0)
    assert {play_at_random(board, generator) for _ in range(100)} == {0, 1, 2, 4, 5, 6}
