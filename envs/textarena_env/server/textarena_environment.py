"""The environment of TextArena's games."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field

from openenv_gym import server
from openenv_gym.errors import InvalidOptionError
from openenv_gym.models import CallToolAction, CallToolObservation
from openenv_gym.rubrics import Rubric, load_rubric
from textarena_env.models import (
    MAX_ACTION,
    MAX_PLAYERS,
    TextArenaAction,
    TextArenaObservation,
    TextArenaState,
)
from textarena_env.server.game import Game
from textarena_env.server.match import LONGEST, Match


__all__ = ["TextArenaEnvironment"]


class SavedMatch(server.SavedState):
    """What `TextArenaEnvironment.save_state` returns: the seed of the game, and all moves."""

    seed: int = Field(ge=0, lt=1 << 31)
    # One more than a match has: the agent's, where the others' moves were too many.
    said: list[Annotated[str, Field(max_length=MAX_ACTION)]] = Field(max_length=LONGEST + 1)


class TextArenaEnvironment(
    server.MCPEnvironment[TextArenaAction, TextArenaObservation, TextArenaState]
):
    """A text game. Its reward comes with its end, and is TextArena's own.

    Args:
        env_id: Name of the game in TextArena.
        num_players: How many play; by default the fewest that can.
        player_id: Which of them the agent is.
        opponent: Who the others are: ``"random"``, or ``"self"``: the agent plays all of them, and
            gets the reward of the one who moved.
        max_turns: Truncate an episode after this many moves of the agent; None for never.
        env_kwargs: What the game itself is made with.
        render_mode: ``"ansi"`` or None.
        rubric: Gives the reward in place of the game; see `openenv_gym.rubrics`.

    Raises:
        InvalidOptionError: An option has a value that is not taken.
    """

    action_model = TextArenaAction
    observation_model = TextArenaObservation
    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi"], "render_fps": 4}

    def __init__(
        self,
        *,
        env_id: str = "Wordle-v0",
        num_players: int | None = None,
        player_id: int = 0,
        opponent: str = "random",
        max_turns: int | None = None,
        env_kwargs: Mapping[str, Any] | None = None,
        render_mode: str | None = None,
        rubric: Rubric | str | None = None,
    ) -> None:
        server.check_integer("num_players", num_players, 1, MAX_PLAYERS, optional=True)
        server.check_choice("opponent", opponent, ("random", "self"))
        server.check_integer("max_turns", max_turns, 1, optional=True)
        server.check_choice("render_mode", render_mode, (None, "ansi"))
        game = Game(env_id, env_kwargs)
        players = _count_players(game, num_players)
        server.check_integer("player_id", player_id, 0, players - 1)
        seat = None if opponent == "self" else player_id
        self._match = Match(game, players, seat, max_turns)
        self._options: dict[str, Any] = {
            "env_id": env_id,
            "num_players": players,
            "seat": seat,
            "max_turns": max_turns,
            "env_kwargs": repr(env_kwargs),
        }
        self._heard = ""
        self.render_mode = render_mode
        self.rubric = load_rubric(rubric)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> TextArenaObservation:
        """Begin a game. There are no options.

        Raises:
            InvalidOptionError: There is an option.
        """
        self.check_reset_options(options)
        self.begin_episode(seed)
        self._match.begin(int(self.np_random.integers(1 << 31)))
        self._match.let_others_move(self.np_random)
        return self._observe()

    def act(self, action: TextArenaAction) -> TextArenaObservation:
        """Take one step."""
        self._match.move(action.message, self.np_random)
        self.count_step()
        return self._observe()

    @server.tool
    def say(self, message: str) -> str:
        """Make a move, or say something, where the game is a talk; returns what is said then.

        Args:
            message: A move as the rules ask for it, mostly in brackets.
        """
        self._match.move(message[:MAX_ACTION], self.np_random)
        self._observe()
        return self._heard

    @server.tool
    def rules(self) -> str:
        """Return the rules of the game, as the player whose turn it is hears them."""
        return self._match.game.prompt(self._match.observer)

    def judge(self, action: CallToolAction, observation: CallToolObservation) -> None:
        """Give a move that is the call of a tool what any other move gets."""
        if action.tool_name == "say" and observation.error is None:
            for name, value in self._match.outcome().items():
                setattr(observation, name, value)

    def _observe(self) -> TextArenaObservation:
        match = self._match
        messages = match.game.hear(match.observer)
        self._heard = "\n".join(message.content for message in messages)
        return TextArenaObservation(
            prompt=match.game.prompt(match.observer),
            messages=messages,
            current_player_id=match.game.current,
            legal_players=list(range(match.players)),
            **match.outcome(),
        )

    @property
    def state(self) -> TextArenaState:
        """How the game stands, without what its players must not know."""
        outcome = self._match.outcome()
        return TextArenaState(
            episode_id=self._episode_id,
            step_count=self._step_count,
            env_id=self._options["env_id"],
            num_players=self._match.players,
            max_turns=self._options["max_turns"],
            turn=self._match.game.turn,
            last_reward=outcome["reward"],
            last_info=outcome["metadata"],
        )

    def render(self) -> str | None:
        """Return what was said last, in render mode ``"ansi"``."""
        return self._heard if self.render_mode == "ansi" else None

    def save_state(self) -> dict[str, Any]:
        """Return the seed of the game, and all moves."""
        match = self._match
        return SavedMatch.of(self, self._options, seed=match.seed, said=list(match.said))

    def restore_state(self, saved: Any) -> None:
        """Return to a state that `save_state` returned: all moves are made again.

        Raises:
            InvalidOptionError: It is no such state.
        """
        state = SavedMatch.read(saved, self._options)
        before = self._match.seed, list(self._match.said)
        try:
            self._heard = self._match.replay(state.seed, state.said)
        except ValueError as error:
            self._match.replay(*before)
            raise state.refusal(str(error)) from None
        state.apply(self)


def _count_players(game: Game, asked: int | None) -> int:
    """Return how many players a game gets.

    Raises:
        InvalidOptionError: It cannot be played with so many.
    """
    why: Exception | None = None
    for number in range(1, MAX_PLAYERS + 1) if asked is None else (asked,):
        try:
            game.start(number, seed=0)
        except Exception as error:
            why = error
        else:
            return number
    raise InvalidOptionError(
        f"num_players={asked}: the game says: {why!s:.200}", field="num_players"
    ) from why
