"""What the other players do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyspiel

from openenv_gym.errors import InvalidOptionError
from openenv_gym.server import check_choice, check_integer
from openspiel_env.server.games import hides


__all__ = ["OPPONENTS", "Opponent", "make_opponent"]

OPPONENTS = ("random", "first", "middle", "last", "mcts", "self")
"""Names that the option takes; with ``"self"`` the agent moves for all players."""

Opponent = Callable[[pyspiel.State, np.random.Generator], int]
"""Chooses an action. All its randomness comes from the generator, so it has no state to save."""

_EXPLORATION = 2.0  # the constant c of UCT, as OpenSpiel's own examples have it
_MEMORY_MB = 256
_MAX_SIMULATIONS = 100_000


def make_opponent(name: Any, game: pyspiel.Game, simulations: int) -> Opponent | None:
    """Return what chooses for the players that the agent is not.

    Args:
        name: One of `OPPONENTS`.
        game: The game.
        simulations: Playouts for each action of ``"mcts"``.

    Returns:
        The opponent; None for ``"self"``.

    Raises:
        InvalidOptionError: There is no such opponent, or not in this game.
    """
    check_integer("mcts_simulations", simulations, 1, _MAX_SIMULATIONS)
    check_choice("opponent", name, OPPONENTS)
    if name == "mcts":
        return _make_mcts(game, simulations)
    chosen: dict[str, Opponent | None] = {
        "random": lambda state, rng: int(rng.choice(state.legal_actions())),
        "first": lambda state, rng: int(state.legal_actions()[0]),
        "middle": lambda state, rng: int(state.legal_actions()[len(state.legal_actions()) // 2]),
        "last": lambda state, rng: int(state.legal_actions()[-1]),
        "self": None,
    }
    return chosen[name]


def _make_mcts(game: pyspiel.Game, simulations: int) -> Opponent:
    """Return OpenSpiel's own tree search (UCT with random playouts).

    A new one for each action: it keeps no tree between actions anyway, and its generators could
    not be saved.
    """
    kind = game.get_type()
    # A search plays on from the true state, in which the cards of all players are open.
    if hides(game):
        raise InvalidOptionError(
            f"opponent='mcts': in {kind.short_name} it would see what players hide.",
            field="opponent",
            hint="Use 'random', or a game of perfect information.",
        )
    if kind.reward_model != pyspiel.GameType.RewardModel.TERMINAL:
        raise InvalidOptionError(
            f"opponent='mcts': {kind.short_name} has rewards before its end, which OpenSpiel's "
            "search cannot add up.",
            field="opponent",
        )

    def choose(state: pyspiel.State, rng: np.random.Generator) -> int:
        seeds = rng.integers(1 << 31, size=2).tolist()
        playouts = pyspiel.RandomRolloutEvaluator(1, seeds[0])
        bot = pyspiel.MCTSBot(
            game, playouts, _EXPLORATION, simulations, _MEMORY_MB, True, seeds[1], False
        )
        return int(bot.step(state))

    return choose
