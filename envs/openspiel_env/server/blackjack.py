"""Blackjack in words, for language models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from openenv_gym.models import State
from openenv_gym.rubrics import Rubric
from openenv_gym.server import check_choice
from openspiel_env.models import TextAction, TextObservation
from openspiel_env.server.tables import HIT, NAMES, STAND, TABLES, Table
from openspiel_env.server.text import find_action, to_prompt
from openspiel_env.server.turns import TurnEnvironment


__all__ = ["TextBlackjackEnvironment"]


class TextBlackjackEnvironment(TurnEnvironment[TextAction, TextObservation, State]):
    """Blackjack for language models: prompts in, answers such as "I stand." out.

    The reward comes with the end: 1 for a win, -1 for a loss, 0 for a draw; with ``"gymnasium"``
    as in Gymnasium's ``Blackjack-v1``, whose games these are, seed by seed.

    Args:
        rules: ``"gymnasium"`` (an endless deck) or ``"openspiel"`` (one deck of 52 cards).
        illegal_action: What becomes of an answer that names no action; see `TurnEnvironment`.
        illegal_penalty: See there.
        max_moves: See there.
        rubric: See there.
        render_mode: See there.

    Raises:
        InvalidOptionError: An option has a value that is not taken.
    """

    action_model = TextAction
    observation_model = TextObservation

    def __init__(
        self,
        rules: str = "gymnasium",
        *,
        illegal_action: str = "loss",
        illegal_penalty: float = 0.1,
        max_moves: int | None = None,
        rubric: Rubric | str | None = None,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(
            illegal_action=illegal_action,
            illegal_penalty=illegal_penalty,
            max_moves=max_moves,
            rubric=rubric,
            render_mode=render_mode,
        )
        check_choice("rules", rules, tuple(TABLES))
        self._rules = rules
        self._table: Table = TABLES[rules]()
        self._gained = 0.0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> TextObservation:
        """Deal a new game. There are no options.

        Raises:
            InvalidOptionError: There is an option.
        """
        self.check_reset_options(options)
        self.begin_episode(seed)
        self._table.deal(self.np_random)
        self._begin_turns()
        self._gained = 0.0
        return self._observe(reward=None, done=False, truncated=False)

    def act(self, action: TextAction) -> TextObservation:
        """Do what the answer says."""
        observation = self._turn(self._read(action.message), repr(action.message))
        self.count_step()
        return observation

    def _observe(self, *, reward: float | None, done: bool, truncated: bool) -> TextObservation:
        player, dealer = self._table.player, self._table.dealer
        info: dict[str, Any] = {
            "legal_actions": self._names(),
            "player_total": player.total,
            "usable_ace": player.usable_ace,
            "dealer_total": dealer.total,
        }
        if self._note:
            info["illegal_action"] = True
        return TextObservation.model_construct(
            prompt=self._words(), reward=reward, done=done, truncated=truncated, metadata=info
        )

    def _names(self) -> list[str]:
        return [] if self._forfeited or self._table.over else list(NAMES)

    def _read(self, text: str) -> int | None:
        return find_action(text, NAMES)

    def _is_legal(self, action: int) -> bool:
        return action in (HIT, STAND)

    def _is_over(self) -> bool:
        return self._table.over

    def _play(self, action: int) -> float:
        reward = self._table.play(action, self.np_random)
        self._gained += reward
        return reward

    def _forfeit_reward(self) -> float:
        return -1.0

    def _words(self) -> str:
        lines = [self._note, "You are playing blackjack against the dealer."]
        lines.append(f"Your cards: {self._table.player}.")
        if self._forfeited:
            lines.append("The game is over: you have forfeited it.")
        elif self._table.over:
            lines.append(f"The dealer's cards: {self._table.dealer}.")
            won = "you win" if self._gained > 0 else "you lose" if self._gained < 0 else "a draw"
            lines.append(f"The game is over: {won}.")
        else:
            lines.append(f"The dealer shows: {self._table.dealer}.")
            lines.append("Answer with one word: hit or stand.")
        return to_prompt("\n".join(line for line in lines if line))

    def legal_actions(self) -> Sequence[Mapping[str, Any]]:
        """Return the legal actions, in words."""
        return [{"message": name} for name in self._names()]

    def render(self) -> str | None:
        """Return the prompt, in render mode ``"ansi"``."""
        return self._words() if self.render_mode == "ansi" else None

    def save_state(self) -> dict[str, Any]:
        """Return the whole state: cards, counters, and the generator."""
        fields = {"gained": self._gained, **self._table.fields(), **self._turn_fields()}
        return self._table.saved_model.of(self, {"rules": self._rules}, **fields)

    def restore_state(self, saved: Any) -> None:
        """Return to a state that `save_state` returned, here or in another process.

        Raises:
            InvalidOptionError: It is no such state, or one of other rules.
        """
        state = self._table.saved_model.read(saved, {"rules": self._rules})
        self._table.restore(state)
        self._gained = state.gained
        self._restore_turns(state)
