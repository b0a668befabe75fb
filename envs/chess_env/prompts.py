"""Text for players who read: a board, a prompt, and how to find the move in a reply."""

from __future__ import annotations

import re
from collections.abc import Sequence


__all__ = ["RULES", "draw_board", "find_move", "move_prompt"]

RULES = (
    "You are playing chess. Answer with one legal move in UCI notation: the square that the piece "
    "leaves and the square that it goes to, such as e2e4; for a promotion the letter of the new "
    "piece after them, such as e7e8q; for castling the squares of the king, such as e1g1."
)
"""What a language model is told once, before the first position."""

# A letter or digit on either side would make it part of something else.
_MOVE = re.compile(r"(?<![0-9A-Za-z])[a-h][1-8][a-h][1-8][bnqr]?(?![0-9A-Za-z])")


def draw_board(fen: str) -> str:
    """Return the board of a position as text, White below, capitals for White.

    Args:
        fen: The position in Forsyth-Edwards notation; only the pieces are read.
    """
    lines = []
    for rank, row in zip(range(8, 0, -1), fen.split()[0].split("/"), strict=True):
        squares = "".join("." * int(each) if each.isdigit() else each for each in row)
        lines.append(f"{rank}  {' '.join(squares)}")
    return "\n".join([*lines, "", "   a b c d e f g h"])


def move_prompt(fen: str, legal_moves: Sequence[str]) -> str:
    """Return what a language model is told of a position; `RULES` come before the first one.

    Args:
        fen: The position.
        legal_moves: The legal moves in UCI notation.
    """
    side = "White (capitals)" if fen.split()[1] == "w" else "Black (small letters)"
    return (
        f"{draw_board(fen)}\n\nFEN: {fen}\n{side} to move.\n"
        f"Legal moves: {' '.join(legal_moves) or 'none, the game is over'}"
    )


def find_move(reply: str) -> str:
    """Return the last move in UCI notation that a reply names; the reply itself without one.

    The last one, because models tend to think aloud before they decide.

    Args:
        reply: What the model wrote.
    """
    found = _MOVE.findall(reply)
    return found[-1] if found else reply.strip()
