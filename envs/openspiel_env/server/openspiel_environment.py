"""Any game of OpenSpiel, against opponents or against oneself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from openenv_gym.errors import InvalidOptionError
from openenv_gym.models import Action, Observation
from openenv_gym.rubrics import Rubric
from openenv_gym.server import check_choice, check_integer
from openspiel_env.models import (
    TERMINAL_PLAYER,
    OpenSpielState,
    TextAction,
    TextObservation,
    action_model,
    observation_model,
)
from openspiel_env.server.games import load_game, tensor_size
from openspiel_env.server.match import Match
from openspiel_env.server.opponents import make_opponent
from openspiel_env.server.saving import SavedMatch
from openspiel_env.server.text import describe_state, find_action, game_prompt
from openspiel_env.server.turns import TurnEnvironment


__all__ = ["OpenSpielEnvironment"]

_FOREIGN_FIELDS = ("game_name", "game_params")  # which clients of OpenEnv send with each action


class OpenSpielEnvironment(TurnEnvironment[Action, Observation, OpenSpielState]):
    """A game of OpenSpiel in which the agent is one of the players, or all of them.

    Chance is drawn from the episode's generator, and so is whatever opponents draw, so that equal
    seeds give equal games.

    Args:
        game: OpenSpiel's name of the game, also with parameters: ``"kuhn_poker(players=3)"``.
        game_params: Parameters of the game.
        agent_player: Number of the player that the agent is, from 0.
        opponent: What the other players do: ``"random"``, the ``"first"``, ``"middle"`` or
            ``"last"`` legal action, ``"mcts"``, or ``"self"``: the agent moves for all of them,
            and each reward is that of the player who moved.
        mcts_simulations: Playouts for each action of ``"mcts"``.
        observation: ``"info_state"`` for tensors and numbered actions, ``"text"`` for prompts,
            which are answered with text.
        illegal_action: What becomes of an illegal action; see `TurnEnvironment`.
        illegal_penalty: See there.
        max_moves: See there.
        rubric: See there.
        render_mode: See there.

    Raises:
        InvalidOptionError: An option has a value that is not taken.
    """

    def __init__(
        self,
        game: str = "catch",
        *,
        game_params: Mapping[str, Any] | None = None,
        agent_player: int = 0,
        opponent: str = "random",
        mcts_simulations: int = 100,
        observation: str = "info_state",
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
        loaded = load_game(game, game_params)
        players = loaded.num_players()
        check_integer("agent_player", agent_player, 0, players - 1)
        self._match = Match(loaded, agent_player, make_opponent(opponent, loaded, mcts_simulations))
        self._agent, self._opponent = agent_player, opponent
        self._in_words = observation == "text"
        self._make_models(observation)

    def _make_models(self, observation: str) -> None:
        game = self._match.game
        check_choice("observation", observation, ("info_state", "text"))
        if self._in_words:
            self.action_model, self.observation_model = TextAction, TextObservation
            return
        size = tensor_size(game)
        if not size:
            raise InvalidOptionError(
                f"{game.get_type().short_name} has no tensors.",
                field="observation",
                hint="Use observation='text'.",
            )
        n_actions = game.num_distinct_actions()
        self.action_model = action_model(n_actions)
        self.observation_model = observation_model(size, n_actions, game.num_players())

    # -- episodes -------------------------------------------------------------------------------

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> Observation:
        """Begin a new game, which is where the agent has its first choice. There are no options.

        Raises:
            InvalidOptionError: There is an option.
        """
        self.check_reset_options(options)
        self.begin_episode(seed)
        self._match.begin(self.np_random)
        self._begin_turns()
        return self._observe(reward=None, done=False, truncated=False)

    def act(self, action: Action) -> Observation:
        """Take one action, and let chance and the opponents move."""
        if isinstance(action, TextAction):
            number, said = self._read(action.message), repr(action.message)
        else:
            number = action.action_id  # type: ignore[attr-defined]
            said = f"action_id={number}"
        observation = self._turn(number, said)
        self.count_step()
        return observation

    def read_action(self, data: Mapping[str, Any]) -> Action:
        """Return the action that a typed client sent.

        Clients of OpenEnv name a game with each action, which counts for nothing: the server goes
        by its options. They may also send numbers to a server that takes text.

        Raises:
            pydantic.ValidationError: The model refuses it.
        """
        fields = {name: value for name, value in data.items() if name not in _FOREIGN_FIELDS}
        if self._in_words and "action_id" in fields:
            model = action_model(self._match.game.num_distinct_actions())
            return model.model_validate(fields)
        return super().read_action(fields)

    def _observe(self, *, reward: float | None, done: bool, truncated: bool) -> Observation:
        match = self._match
        legal = [] if self._forfeited else match.legal_actions()
        mask = np.zeros(match.game.num_distinct_actions(), np.int8)
        mask[legal] = 1
        info: dict[str, Any] = {"action_mask": mask, "returns": match.returns}
        if self._note:
            info["illegal_action"] = True
        if self._in_words:
            info["legal_actions"] = self._names()
            fields: dict[str, Any] = {"prompt": self._words()}
        else:
            over = self._is_over() or self._forfeited
            fields = {
                "info_state": match.tensor(),
                "legal_actions": legal,
                "game_phase": "terminal" if over else "playing" if self._moves else "initial",
                "current_player_id": TERMINAL_PLAYER if over else match.player,
                "opponent_last_action": match.opponent_action,
            }
        # Nothing here needs to be validated: it is what OpenSpiel says.
        return self.observation_model.model_construct(
            **fields, reward=reward, done=done, truncated=truncated, metadata=info
        )

    # -- what `TurnEnvironment` asks for --------------------------------------------------------

    def _names(self) -> list[str]:
        if self._forfeited:
            return []
        state, player = self._match.state, self._match.player
        return [state.action_to_string(player, each) for each in self._match.legal_actions()]

    def _read(self, text: str) -> int | None:
        index = find_action(text, self._names())
        return None if index is None else self._match.legal_actions()[index]

    def _is_legal(self, action: int) -> bool:
        return action in self._match.legal_actions()

    def _is_over(self) -> bool:
        return bool(self._match.state.is_terminal())

    def _play(self, action: int) -> float:
        return self._match.act(action, self.np_random)

    def _forfeit_reward(self) -> float:
        return float(self._match.game.min_utility() - self._match.returns[self._match.player])

    def _words(self) -> str:
        match = self._match
        outcome = ""
        if self._forfeited:
            outcome = "You have forfeited it."
        elif self._is_over():
            gained = ", ".join(f"{gain:g}" for gain in match.returns)
            outcome = f"Returns by player: {gained}."
        return game_prompt(
            match.game, match.state, match.player, self._names(), note=self._note, outcome=outcome
        )

    # -- beside the game ------------------------------------------------------------------------

    @property
    def state(self) -> OpenSpielState:
        """What is being played, and how."""
        game = self._match.game
        return OpenSpielState(
            episode_id=self._episode_id,
            step_count=self._step_count,
            game_name=game.get_type().short_name,
            agent_player=self._agent,
            opponent_policy=self._opponent,
            # A parameter may be a game.
            game_params={
                key: value if isinstance(value, (bool, int, float)) else str(value)
                for key, value in game.get_parameters().items()
            },
            num_players=game.num_players(),
        )

    def legal_actions(self) -> Sequence[Mapping[str, Any]]:
        """Return the legal actions, by number or in words."""
        if self._in_words:
            return [{"message": name} for name in self._names()]
        legal = [] if self._forfeited else self._match.legal_actions()
        return [{"action_id": each} for each in legal]

    def render(self) -> str | None:
        """Return what the player sees and knows, in render mode ``"ansi"``."""
        if self.render_mode is None:
            return None
        return describe_state(self._match.game, self._match.state, self._match.player)

    def save_state(self) -> dict[str, Any]:
        """Return the whole state: the game, its history, and the generator.

        Raises:
            NotImplementedError: For the few games that draw from a generator of their own.
        """
        fields = {**self._match.fields(), **self._turn_fields()}
        return SavedMatch.of(self, self._saved_options, **fields)

    def restore_state(self, saved: Any) -> None:
        """Return to a state that `save_state` returned, here or in another process.

        The environment must play the same game, with the same agent and the same opponent.

        Raises:
            InvalidOptionError: It is no such state, or one of another game.
        """
        state = SavedMatch.read(saved, self._saved_options)
        self._match.restore(state)
        self._restore_turns(state)

    @property
    def _saved_options(self) -> dict[str, Any]:
        return {
            "game": str(self._match.game),
            "agent_player": self._agent,
            "opponent": self._opponent,
        }
