"""Moves as numbers: every legal move has one, and each number is one move."""

from __future__ import annotations

import chess
import numpy as np
import pytest

from chess_env.models import ACTIONS
from chess_env.server.moves import action_mask, decode, encode

from .play import make


# Positions and counts of https://www.chessprogramming.org/Perft_Results: the initial position, and
# positions 2 to 5 there.
PERFT = {
    "initial": (chess.STARTING_FEN, (20, 400, 8_902)),
    "kiwipete": (
        "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
        (48, 2_039, 97_862),
    ),
    "position 3": ("8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1", (14, 191, 2_812)),
    "position 4": (
        "r3k2r/Pppp1ppp/1b3nbN/nP6/BBP1P3/q4N2/Pp1P2PP/R2Q1RK1 w kq - 0 1",
        (6, 264, 9_467),
    ),
    "position 5": (
        "rnbq1k1r/pp1Pbppp/2p5/8/2B5/8/PPP1NnPP/RNBQK2R w KQ - 1 8",
        (44, 1_486, 62_379),
    ),
}


@pytest.mark.parametrize("name", PERFT)
def test_as_many_moves_as_the_literature_counts(name: str) -> None:
    """Perft, by nothing but steps, action masks and saved states."""
    fen, expected = PERFT[name]
    env = make(fen=fen, action="discrete", observation="planes", opponent="self")
    environment = env.environment
    _, info = env.reset()
    counts = [0, 0, 0]

    def walk(depth: int, mask: np.ndarray) -> None:
        actions = np.flatnonzero(mask)
        counts[depth] += len(actions)
        if depth == 2:
            return
        saved = environment.save_state()
        for action in actions:
            environment.restore_state(saved)
            walk(depth + 1, env.step(int(action))[4]["action_mask"])

    walk(0, info["action_mask"])
    assert tuple(counts) == expected


def random_boards(chess960: bool, games: int = 12) -> list[chess.Board]:
    random = np.random.default_rng(960 if chess960 else 1)
    boards = []
    for _ in range(games):
        number = int(random.integers(960))
        board = chess.Board.from_chess960_pos(number) if chess960 else chess.Board()
        while not board.is_game_over() and len(board.move_stack) < 200:
            boards.append(board.copy(stack=False))
            moves = list(board.legal_moves)
            board.push(moves[int(random.integers(len(moves)))])
    return boards


@pytest.mark.parametrize("chess960", [False, True], ids=["chess", "chess960"])
def test_numbers_and_legal_moves_are_one_to_one(chess960: bool) -> None:
    special = {"castling": 0, "passing": 0, "lesser": 0, "queen": 0}
    for board in random_boards(chess960):
        moves = list(board.legal_moves)
        numbers = [encode(move, board.turn) for move in moves]
        assert len(set(numbers)) == len(moves)
        assert all(0 <= number < ACTIONS for number in numbers)
        assert [decode(number, board) for number in numbers] == moves
        mask = action_mask(board, moves)
        assert (mask.dtype, mask.shape) == (np.int8, (ACTIONS,))
        assert np.flatnonzero(mask).tolist() == sorted(numbers)
        for move in moves:
            special["castling"] += board.is_castling(move)
            special["passing"] += board.is_en_passant(move)
            special["queen"] += move.promotion == chess.QUEEN
            special["lesser"] += move.promotion in (chess.ROOK, chess.BISHOP, chess.KNIGHT)
    assert all(special.values()), special


def test_every_number_is_one_move_at_most() -> None:
    for board in random_boards(False, games=1)[:40]:
        legal = set(board.legal_moves)
        decoded = [decode(number, board) for number in range(ACTIONS)]
        found = [move for move in decoded if move in legal]
        assert len(found) == len(legal) == len(set(found))


@pytest.mark.parametrize(
    ("fen", "move", "number"),
    [
        # square * 73 + plane, counted by hand from the table in `moves`.
        (chess.STARTING_FEN, "e2e4", 12 * 73 + 1),  # north, two
        (chess.STARTING_FEN, "g1f3", 6 * 73 + 63),  # two up, one left
        (chess.STARTING_FEN.replace(" w ", " b "), "e7e5", 12 * 73 + 1),  # as Black sees it
        (chess.STARTING_FEN.replace(" w ", " b "), "g8f6", 6 * 73 + 63),
        ("r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1", "e1g1", 4 * 73 + 2 * 7 + 1),  # east, two
        ("r3k2r/8/8/8/8/8/8/R3K2R b KQkq - 0 1", "e8c8", 4 * 73 + 6 * 7 + 1),  # west, two
        ("3r4/4P3/8/8/8/8/k6K/8 w - - 0 1", "e7e8q", 52 * 73 + 0),  # north, one
        ("3r4/4P3/8/8/8/8/k6K/8 w - - 0 1", "e7d8n", 52 * 73 + 64),  # knight, to the left
        ("3r4/4P3/8/8/8/8/k6K/8 w - - 0 1", "e7e8r", 52 * 73 + 64 + 2 * 3 + 1),  # rook, on
        ("8/K6k/8/8/8/8/4p3/3R4 b - - 0 1", "e2d1b", 52 * 73 + 64 + 3),  # bishop, to the left
    ],
)
def test_the_order_of_the_planes(fen: str, move: str, number: int) -> None:
    board = chess.Board(fen)
    assert encode(board.parse_uci(move), board.turn) == number
    assert decode(number, board) == board.parse_uci(move)


def test_a_number_that_leads_off_the_board_is_an_illegal_move() -> None:
    env = make(action="discrete")
    _, info = env.reset()
    assert decode(6, chess.Board()) == chess.Move.from_uci("a1a8")
    assert decode(4 * 7, chess.Board()) is None  # south of a1
    before = info["action_mask"]
    _, reward, terminated, truncated, info = env.step(4 * 7)
    assert (reward, terminated, truncated, info["illegal_move"]) == (-0.1, False, False, True)
    assert np.array_equal(info["action_mask"], before)


def test_castling_has_one_number() -> None:
    """Onto the rook it is written in Chess960 alone, though python-chess would understand it."""
    env = make(fen="r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1", action="discrete", opponent="self")
    env.reset()
    onto_rook = 4 * 73 + 2 * 7 + 2  # east, three
    assert env.step(onto_rook)[4]["illegal_move"]
    assert env.step(4 * 73 + 2 * 7 + 1)[4]["move"] == "e1g1"
