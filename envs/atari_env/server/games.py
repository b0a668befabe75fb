"""Names of the games that ale-py brings along."""

from __future__ import annotations

import difflib
import functools

from ale_py import roms

from openenv_gym.errors import InvalidOptionError


__all__ = ["available_games", "find_game"]

_TWO_PLAYERS = frozenset({"combat", "joust", "maze_craze", "warlords"})
"""Games that cannot be played alone; ale-py registers no environment for them either."""


@functools.cache
def available_games() -> tuple[str, ...]:
    """Return the names of all games, in snake case."""
    return tuple(sorted(set(roms.get_all_rom_ids()) - _TWO_PLAYERS))


def find_game(name: str) -> str:
    """Return the name by which ale-py knows a game.

    Args:
        name: The name in snake case, as in Gymnasium's ids, or in any other spelling that differs
            in case, spaces, dashes and underscores: ``space_invaders``, ``SpaceInvaders``.

    Raises:
        InvalidOptionError: There is no such game; ``data["games"]`` lists all.
    """
    games = {_letters(game): game for game in available_games()}
    letters = _letters(str(name))  # options come from afar, and may be anything
    if letters in games:
        return games[letters]
    if letters in {_letters(game) for game in _TWO_PLAYERS}:
        message, hint = f"The game {name!r} takes two players.", ""
    else:
        message = f"Unknown game {name!r:.80}."
        near = [games[match] for match in difflib.get_close_matches(letters, games, n=3)]
        hint = f"Did you mean {' or '.join(map(repr, near))}? " if near else ""
    raise InvalidOptionError(
        message,
        field="game",
        hint=f"{hint}All {len(games)} games are in this error's `data['games']` and in the "
        "README of atari_env.",
        data={"games": list(games.values())},
    )


def _letters(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())
