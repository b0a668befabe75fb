"""Games in words, for language models: prompts, and the actions that answers name."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyspiel

from openspiel_env.models import MAX_PROMPT_LENGTH, PROMPT_CHARACTERS
from openspiel_env.server.games import hides


__all__ = ["describe_state", "find_action", "game_prompt", "to_prompt"]

_MAX_NAMES = 200  # a prompt lists no more actions than these
_MAX_MEMORY = 2000  # an information state that is longer is left out of a prompt
_CHARACTERS = frozenset(PROMPT_CHARACTERS)


def find_action(message: str, names: Sequence[str]) -> int | None:
    """Return the index of the action that a message names.

    Models think aloud and decide at the end, so what is named last counts. A name counts where it
    stands by itself: ``hit``, not ``white``. Capitals make no difference, unless two names differ
    in nothing else (the moves ``bxc3`` and ``Bxc3`` of chess).

    Args:
        message: What the model said.
        names: What the actions are called.

    Returns:
        An index into `names`, or None where none of them occurs.
    """
    if not names:
        return None
    folded = [name.lower() for name in names]
    if len(set(folded)) == len(folded):
        names, message = folded, message.lower()
    # The longest first: `Bid: 1` must not be found where `Bid: 1 heart` stands.
    longest_first = sorted(names, key=len, reverse=True)
    pattern = "|".join(re.escape(name) for name in longest_first)
    found = re.findall(rf"(?<!\w)(?:{pattern})(?!\w)", message)
    return list(names).index(found[-1]) if found else None


def describe_state(game: pyspiel.Game, state: pyspiel.State, player: int) -> str:
    """Return what a player sees and, in a game of hidden information, what it knows.

    The first is OpenSpiel's observation string, the second its information-state string.
    """
    kind = game.get_type()
    seen = state.observation_string(player) if kind.provides_observation_string else ""
    known = ""
    if kind.provides_information_state_string and (hides(game) or not seen):
        known = state.information_state_string(player)
    # Some games repeat there every observation there has been.
    if seen and (known == seen or len(known) > _MAX_MEMORY):
        known = ""
    parts = [seen.strip("\n")] if seen else []
    if known:
        parts.append(f"Information state: {known}" if seen else known)
    return "\n".join(parts)


def game_prompt(
    game: pyspiel.Game,
    state: pyspiel.State,
    player: int,
    names: Sequence[str],
    *,
    note: str = "",
    outcome: str = "",
) -> str:
    """Return a prompt for any game.

    Args:
        game: The game.
        state: Where it is.
        player: Who is asked.
        names: What the legal actions are called.
        note: What there is to say first.
        outcome: How the game ended; empty while it goes on.
    """
    title = game.get_type().long_name
    who = f"You are player {player} of {game.num_players()}." if game.num_players() > 1 else ""
    lines = [note, f"You are playing {title}. {who}".strip(), describe_state(game, state, player)]
    if outcome:
        lines.append(f"The game is over. {outcome}")
    else:
        shown = ", ".join(names[:_MAX_NAMES])
        more = len(names) - _MAX_NAMES
        lines.append(f"Legal actions: {shown}" + (f", and {more} more" if more > 0 else ""))
        lines.append("Answer with one of them.")
    return to_prompt("\n".join(line for line in lines if line))


def to_prompt(text: str) -> str:
    """Return text that lies in the space of prompts: known characters, and not too many."""
    clean = "".join(char if char in _CHARACTERS else "?" for char in text)
    if len(clean) <= MAX_PROMPT_LENGTH:
        return clean
    cut = "\n[...]\n"
    half = (MAX_PROMPT_LENGTH - len(cut)) // 2
    return clean[:half] + cut + clean[-half:]
