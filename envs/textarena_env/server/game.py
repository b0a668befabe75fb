"""One game of TextArena's, on its own: texts in bounds, and random numbers of its own."""

from __future__ import annotations

import copy
import difflib
import functools
import math
import random
import re
import threading
import warnings
from collections.abc import Iterator, Mapping, Sized
from contextlib import contextmanager
from typing import Any

import numpy as np

from openenv_gym.errors import InvalidOptionError
from textarena_env.models import (
    CATEGORIES,
    CHARACTERS,
    MAX_MESSAGE,
    MAX_PLAYERS,
    MAX_PROMPT,
    TextArenaMessage,
)
from textarena_env.server.words import nltk_stand_in


__all__ = ["Game"]

# TextArena's games draw from the generators of the process, and import what they need when they
# are made. Both are lent to one game at a time.
_PROCESS = threading.RLock()

_OTHERS = re.compile(f"[^{re.escape(CHARACTERS)}]")
_LARGE = 1_000  # what has more parts holds words


class Game:
    """A game that has not begun yet.

    Args:
        env_id: Its name in TextArena's registry.
        options: What it is made with, beside what the registry says.

    Raises:
        InvalidOptionError: There is no such game, it does not take the options, or it cannot be
            played here.
    """

    def __init__(self, env_id: str, options: Mapping[str, Any] | None = None) -> None:
        if not isinstance(env_id, str):
            raise InvalidOptionError(f"env_id={env_id!r:.80}: expected text.", field="env_id")
        if not (options is None or isinstance(options, dict)):
            raise InvalidOptionError(
                f"env_kwargs={options!r:.80}: expected a mapping.", field="env_kwargs"
            )
        with _PROCESS, _imports():
            known = _registry()
            if env_id not in known:
                near = difflib.get_close_matches(env_id, known, n=3)
                raise InvalidOptionError(
                    f"env_id={env_id!r:.80}: TextArena has no such game.",
                    field="env_id",
                    hint=f"Did you mean {' or '.join(near)}?" if near else "See the README.",
                )
            self._random = (random.Random(0).getstate(), np.random.RandomState(0).get_state())
            try:
                with self._own_random():
                    self._made = _textarena().make(env_id, **(options or {}))
            except TypeError as error:
                field = "env_kwargs" if options else "env_id"
                raise InvalidOptionError(f"{field}: {error}.", field=field) from error
            except Exception as error:
                why = f"{type(error).__name__}: {error!s:.300}"
                raise InvalidOptionError(
                    f"env_id={env_id!r} cannot be played here: {why}", field="env_id"
                ) from error
        if isinstance(words := getattr(_inner(self._made), "word_list", None), list):
            words.sort()  # some come out of a set, whose order is another in each process
        self._wrapped = self._made
        self._game = _inner(self._wrapped)
        self._prompts: dict[int, str] = {}

    def start(self, num_players: int, seed: int) -> None:
        """Begin anew.

        Raises:
            Exception: Whatever the game says of that number of players.
        """
        self._random = (random.Random(seed).getstate(), np.random.RandomState(seed).get_state())
        self._prompts = {}
        self._wrapped = _copied(self._made)  # not every game is as new after a reset
        self._game = _inner(self._wrapped)
        with self._own_random():
            self._wrapped.reset(num_players=num_players, seed=seed)
        # Not every game says so itself, and some then never end.
        alone = isinstance(self._game.state, _textarena().SinglePlayerState)
        two = isinstance(self._game.state, _textarena().TwoPlayerState)
        if alone is not (num_players == 1) or (two and num_players != 2):
            raise ValueError(f"It is not for {num_players} players.")

    @property
    def current(self) -> int:
        """Whose turn it is."""
        return int(self._game.state.current_player_id)

    @property
    def turn(self) -> int:
        """How many turns were taken."""
        return int(self._game.state.turn)

    @property
    def over(self) -> bool:
        """It has come to its end."""
        return bool(self._game.state.done)

    @property
    def rewards(self) -> dict[int, float]:
        """What each player has earned; empty before the end."""
        rewards = self._game.state.rewards or {}
        return {int(player): _number(reward) for player, reward in rewards.items()}

    def reason(self, player: int) -> str:
        """Return why it ended, as a player is told."""
        return _clean(
            str(self._game.state.game_info.get(player, {}).get("reason", "")), MAX_MESSAGE
        )

    def prompt(self, player: int) -> str:
        """Return the rules as a player has heard them."""
        return self._prompts.get(player, "")

    def hear(self, player: int) -> list[TextArenaMessage]:
        """Return what was said to a player since the last time."""
        said = self._game.state.observations.get(player, [])
        self._game.state.observations[player] = []
        messages = [_message(*each) for each in said]
        rules = [each.content for each in messages if each.category == "PROMPT"]
        if rules or (player not in self._prompts and messages):
            text = "\n".join(rules) or messages[0].content
            self._prompts[player] = _clean(text, MAX_PROMPT)
        return messages

    def say(self, message: str) -> bool:
        """Make a move for the player whose turn it is; return whether the game takes it.

        Raises:
            Exception: Whatever a game raises that is not prepared for such a text.
        """
        state, player = self._game.state, self.current
        before = getattr(state, "error_count", 0)
        with self._own_random():
            self._wrapped.step(message)
        broke = bool(state.game_info.get(player, {}).get("invalid_move"))
        return not broke and getattr(state, "error_count", 0) <= before

    def would_take(self, message: str) -> bool:
        """Tell whether the game would take a move of the player whose turn it is."""
        trial = copy.copy(self)
        trial._wrapped = _copied(self._wrapped)
        trial._game = _inner(trial._wrapped)
        try:
            return trial.say(message)
        except Exception:
            return False

    @contextmanager
    def _own_random(self) -> Iterator[None]:
        with _PROCESS:
            outside = random.getstate(), np.random.get_state()
            random.setstate(self._random[0])
            np.random.set_state(self._random[1])
            try:
                yield
            finally:
                self._random = random.getstate(), np.random.get_state()
                random.setstate(outside[0])
                np.random.set_state(outside[1])


@contextmanager
def _imports() -> Iterator[None]:
    """Import TextArena without its warnings, and without NLTK's downloads."""
    with warnings.catch_warnings(), nltk_stand_in():
        warnings.simplefilter("ignore")
        yield


@functools.cache
def _textarena() -> Any:
    import textarena

    # It takes seconds to make, and games only look words up in it: one for all of them.
    lists = textarena.envs.utils.word_lists
    lists.EnglishDictionary = functools.cache(lists.EnglishDictionary)
    return textarena


def _registry() -> Mapping[str, Any]:
    registry: Mapping[str, Any] = _textarena().envs.registration.ENV_REGISTRY
    return registry


def _inner(wrapped: Any) -> Any:
    """Return the game within its wrappers."""
    while isinstance(wrapped, _textarena().Wrapper):
        wrapped = wrapped.env
    return wrapped


def _copied(wrapped: Any) -> Any:
    """Return a copy of a game, which shares its words: they are many, and never change."""
    words = {
        id(part): part
        for part in vars(_inner(wrapped)).values()
        if hasattr(part, "is_english_word") or (isinstance(part, Sized) and len(part) > _LARGE)
    }
    return copy.deepcopy(wrapped, words)


def _message(sender: Any, content: Any, kind: Any) -> TextArenaMessage:
    number = int(sender) if isinstance(sender, int) else -1
    category = getattr(kind, "name", "")
    return TextArenaMessage.model_construct(  # all of it is in bounds
        sender_id=number if 0 <= number < MAX_PLAYERS else -1,
        content=_clean(str(content), MAX_MESSAGE),
        category=category if category in CATEGORIES else "GAME_MESSAGE",
    )


def _number(reward: Any) -> float:
    """Return a reward; some games give the reason of an invalid move in its place."""
    return float(reward) if isinstance(reward, (int, float)) and math.isfinite(reward) else -1.0


def _clean(text: str, limit: int) -> str:
    """Return a text that lies in its space."""
    text = _OTHERS.sub("\ufffd", text)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
