"""A player who moves at random."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from textarena_env.server.game import Game


__all__ = ["random_move"]

_MOVE = re.compile(r"\[[^\[\]\n]{1,60}\]")
_NUMBER = re.compile(r"\d+")
_VARIANTS = 4  # of each move with a number in it
_TRIALS = 40


def random_move(game: Game, rng: np.random.Generator) -> str:
    """Return a move for the player whose turn it is.

    The texts of a game name moves in brackets: those that are possible, or examples. The player
    takes one at random that the game accepts, first of those in the last message that has some,
    then of all, also with other numbers in them.

    Args:
        game: The game; what it says to the player is heard here.
        rng: Decides.

    Returns:
        The move; where the game takes none, one that it does not take.
    """
    player = game.current
    texts = [message.content for message in game.hear(player)] or [game.prompt(player)]
    last = next((found for text in reversed(texts) if (found := _MOVE.findall(text))), [])
    every = [move for text in (game.prompt(player), *texts) for move in _MOVE.findall(text)]
    others = [
        _NUMBER.sub(lambda _: str(rng.integers(10)), move)
        for move in dict.fromkeys(every)
        for _ in range(_VARIANTS)
    ]
    tries = _shuffled(last, rng) + _shuffled([*every, *others], rng)
    tries = list(dict.fromkeys(tries))[:_TRIALS] or ["[0]"]
    return next((move for move in tries if game.would_take(move)), tries[0])


def _shuffled(moves: Sequence[str], rng: np.random.Generator) -> list[str]:
    distinct = list(dict.fromkeys(moves))
    return [distinct[index] for index in rng.permutation(len(distinct))]
