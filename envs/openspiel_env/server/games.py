"""Games of OpenSpiel by name: loaded, checked, and made sequential."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

import pyspiel

from openenv_gym.errors import InvalidOptionError


__all__ = ["draws_by_itself", "hides", "load_game", "tensor_size"]

_MAX_ACTIONS = 1 << 18  # colored_trails has 93,123
_MAX_TENSOR = 1 << 22

_GameType = pyspiel.GameType


def load_game(name: str, params: Mapping[str, Any] | None = None) -> pyspiel.Game:
    """Load a game in which players move one after the other.

    A game of simultaneous moves is converted: the players move in turn, and none sees what those
    before it have chosen.

    Args:
        name: OpenSpiel's name, ``"kuhn_poker"``, or with parameters, ``"kuhn_poker(players=3)"``.
        params: The parameters, where they are not in the name.

    Returns:
        The game.

    Raises:
        InvalidOptionError: There is no such game, it does not take the parameters, or it cannot
            be played step by step.
    """
    if not isinstance(name, str):
        raise InvalidOptionError(f"game={name!r:.80}: expected a name.", field="game")
    base = name.partition("(")[0]
    known = pyspiel.registered_names()
    if base not in known:
        near = difflib.get_close_matches(base, known, n=3)
        raise InvalidOptionError(
            f"game={name!r:.80}: OpenSpiel has no such game.",
            field="game",
            hint=f"Did you mean {', '.join(near)}?" if near else "The README lists them.",
        )
    _check_params(params)
    try:
        game = pyspiel.load_game(name, dict(params)) if params else pyspiel.load_game(name)
        _check_type(base, game.get_type())
        if game.get_type().dynamics == _GameType.Dynamics.SIMULTANEOUS:
            game = pyspiel.convert_to_turn_based(game)
    except (pyspiel.SpielError, IndexError, RuntimeError) as error:
        words = " ".join(str(error).split())
        raise InvalidOptionError(
            f"{base} cannot be loaded with {dict(params or {})!r:.200}: {words:.300}.",
            field="game_params" if params else "game",
        ) from None
    if game.num_distinct_actions() > _MAX_ACTIONS or tensor_size(game) > _MAX_TENSOR:
        raise InvalidOptionError(
            f"{base} with {dict(params or {})!r:.200} is too large: it has "
            f"{game.num_distinct_actions()} actions, and a tensor of {tensor_size(game)} numbers; "
            f"at most {_MAX_ACTIONS} and {_MAX_TENSOR} are taken.",
            field="game_params" if params else "game",
        )
    return game


def draws_by_itself(game: pyspiel.Game) -> bool:
    """Tell whether a game draws from a generator of its own, seeded when it is loaded."""
    return bool(game.get_type().chance_mode == _GameType.ChanceMode.SAMPLED_STOCHASTIC)


def hides(game: pyspiel.Game) -> bool:
    """Tell whether players know something that others do not.

    So it is in a game of simultaneous moves, too, which `load_game` has converted: who moves first
    there hides the move from those who are asked after it.
    """
    return bool(game.get_type().information != _GameType.Information.PERFECT_INFORMATION)


def tensor_size(game: pyspiel.Game) -> int:
    """Return how many numbers the tensor has that a player sees; 0 where there is none."""
    kind = game.get_type()
    if kind.provides_information_state_tensor:
        return int(game.information_state_tensor_size())
    return int(game.observation_tensor_size()) if kind.provides_observation_tensor else 0


def _check_params(params: Any) -> None:
    if params is None:
        return
    if not isinstance(params, Mapping) or not all(
        isinstance(key, str) and type(value) in (bool, int, float, str)
        for key, value in params.items()
    ):
        raise InvalidOptionError(
            f"game_params={params!r:.200}: expected names with booleans, numbers or strings.",
            field="game_params",
        )


def _check_type(name: str, kind: pyspiel.GameType) -> None:
    reason = None
    if kind.dynamics == _GameType.Dynamics.MEAN_FIELD:
        reason = "it is a mean-field game, played by a distribution instead of players"
    elif getattr(kind, "action_structs_only", False):  # since OpenSpiel 2
        reason = "its actions have no numbers"
    if reason:
        raise InvalidOptionError(f"game={name!r} cannot be played here: {reason}.", field="game")
