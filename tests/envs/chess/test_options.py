"""Options: what is refused, and what it is said with."""

from __future__ import annotations

from typing import Any

import pytest

from chess_env.server.chess_environment import ChessEnvironment
from openenv_gym.errors import InvalidOptionError

from .play import needs_stockfish


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"action": "san"}, "action"),
        ({"observation": "rgb"}, "observation"),
        ({"opponent": ""}, "opponent"),
        ({"opponent": 3}, "opponent"),
        ({"opponent": "no-such-engine"}, "opponent"),
        ({"opponent": "/etc/passwd"}, "opponent"),
        ({"opponent": "/bin/true"}, "opponent"),  # ends without a word
        ({"fen": "nonsense"}, "fen"),
        ({"fen": "8/8/8/8/8/8/8/8 w - - 0 1"}, "fen"),  # no kings
        ({"fen": "k7/8/8/8/8/8/8/K7 w - - 0 1"}, "fen"),  # over
        ({"fen": "R6k/6pp/8/8/8/8/8/K7 b - - 0 1"}, "fen"),  # mate
        ({"fen": "7k/8/8/8/8/8/8/KR6 w - - 100 120"}, "fen"),  # a draw that is claimed
        ({"fen": "7k/8/8/8/8/8/8/KR6 w - - 150 120", "claim_draws": False}, "fen"),
        ({"fen": "7k/8/8/8/8/8/8/KR6 w - - 0 " + "9" * 80}, "fen"),
        ({"fen": 5}, "fen"),
        ({"chess960": 960}, "chess960"),
        ({"chess960": -1}, "chess960"),
        ({"chess960": True}, "chess960"),
        ({"chess960": "any"}, "chess960"),
        ({"chess960": 5, "fen": "4k3/8/8/8/8/8/4P3/4K3 w - - 0 1"}, "chess960"),
        ({"agent_color": "green"}, "agent_color"),
        ({"agent_color": "black", "opponent": "self"}, "agent_color"),
        ({"max_moves": 0}, "max_moves"),
        ({"max_moves": 2.5}, "max_moves"),
        ({"max_moves": True}, "max_moves"),
        ({"claim_draws": "yes"}, "claim_draws"),
        ({"illegal_move": "ignore"}, "illegal_move"),
        ({"skill": 3}, "skill"),  # the opponent is no engine
        ({"nodes": 100, "opponent": "self"}, "nodes"),
        ({"opponent": "stockfish", "skill": 21}, "skill"),
        ({"opponent": "stockfish", "skill": 3, "elo": 1500}, "elo"),
        ({"opponent": "stockfish", "depth": 0}, "depth"),
        ({"opponent": "stockfish", "depth": 3, "nodes": 10}, "nodes"),
        ({"opponent": "stockfish", "time_s": float("nan")}, "time_s"),
        ({"opponent": "stockfish", "time_s": 0}, "time_s"),
        ({"opponent": "stockfish", "engine_timeout_s": float("inf")}, "engine_timeout_s"),
        ({"opponent": "stockfish", "engine_memory_mb": 1}, "engine_memory_mb"),
        ({"render_mode": "human"}, "render_mode"),
        ({"rubric": 3}, "rubric"),
        ({"color": "white"}, "color"),
    ],
    ids=str,
)
def test_wrong_options(options: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        ChessEnvironment(**options)
    assert caught.value.field == field
    assert field in str(caught.value)


@needs_stockfish
def test_a_rating_that_the_engine_does_not_have() -> None:
    with pytest.raises(InvalidOptionError, match="1350 to 2850") as caught:
        ChessEnvironment(opponent="stockfish", elo=100)
    assert caught.value.field == "elo"


def test_an_unknown_option_names_its_neighbour() -> None:
    with pytest.raises(InvalidOptionError, match="Did you mean 'opponent'"):
        ChessEnvironment(oponent="self")


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"fen": "nonsense"}, "fen"),
        ({"fen": "7k/8/8/8/8/8/8/KR6 w - - 100 120"}, "fen"),
        ({"chess960": 1000}, "chess960"),
        ({"agent_color": "red"}, "agent_color"),
        ({"opponent": "self"}, "opponent"),
        ({"fen": "4k3/8/8/8/8/8/4P3/4K3 w - - 0 1", "chess960": 1}, "chess960"),
    ],
)
def test_a_refused_reset_leaves_the_game_as_it_is(given: dict[str, Any], field: str) -> None:
    environment = ChessEnvironment()
    environment.reset(seed=1)
    before = environment.save_state()
    with pytest.raises(InvalidOptionError) as caught:
        environment.reset(seed=2, options=given)
    assert caught.value.field == field
    assert environment.save_state() == before
