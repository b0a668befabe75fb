"""Games that are saved and taken up again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from chess_env import ChessAction
from chess_env.server.chess_environment import ChessEnvironment
from openenv_gym.errors import InvalidOptionError, ResetNeededError

from .play import make, needs_stockfish, play, same


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"observation": "planes", "action": "discrete", "agent_color": "black"},
        {"opponent": "self"},
        {"chess960": 7},
        pytest.param({"opponent": "stockfish", "nodes": 500}, marks=needs_stockfish),
        pytest.param({"opponent": "stockfish", "skill": 1}, marks=needs_stockfish),
    ],
    ids=str,
)
def test_a_restored_game_goes_on_as_it_did(options: dict[str, Any]) -> None:
    env, other = make(**options), make(**options)
    play(env, 20, 4)
    saved = env.environment.save_state()
    assert json.loads(json.dumps(saved)) == saved  # plain data
    state = env.environment.state
    actions = env.environment.legal_actions()
    for action in (actions[0], actions[-1]):
        field = next(iter(action))
        expected = env.step(action[field])
        after = env.environment.save_state()
        for restored in (env, other):
            restored.environment.restore_state(saved)
            assert restored.environment.state == state
            assert same(restored.environment.save_state(), saved)
            assert same(restored.step(action[field]), expected)
            assert same(restored.environment.save_state(), after)
            restored.environment.restore_state(saved)
    for each in (env, other):
        each.close()


def test_ends_and_repetitions_are_part_of_it() -> None:
    environment = ChessEnvironment(opponent="self")
    environment.reset()
    for move in ("g1f3", "g8f6", "f3g1", "f6g8", "g1f3", "g8f6", "f3g1"):
        environment.step(ChessAction(move=move))
    saved = environment.save_state()
    other = ChessEnvironment(opponent="self")
    other.restore_state(saved)
    assert other.step(ChessAction(move="f6g8")).metadata["termination"] == "threefold_repetition"
    over = other.save_state()
    environment.restore_state(over)
    with pytest.raises(ResetNeededError):
        environment.step(ChessAction(move="g1f3"))
    assert environment.state == other.state


def test_a_state_in_which_nobody_waits_for_the_opponent_is_taken() -> None:
    # It is over, by the agent's own move.
    won = ChessEnvironment(fen="7k/5K2/8/8/8/8/8/6Q1 w - - 0 1")
    won.reset(seed=1)
    assert won.step(ChessAction(move="g1g7")).done
    # The opponent's first move has ended it, which the first step tells.
    ended = ChessEnvironment(fen="k7/1Q6/8/8/8/8/8/7K b - - 0 1")
    ended.reset(seed=0)
    other = ChessEnvironment()
    for environment in (won, ended):
        other.restore_state(environment.save_state())
        assert other.state == environment.state
    assert other.step(ChessAction(move="h1h2")).done


def test_a_forfeited_game_stays_lost() -> None:
    environment = ChessEnvironment(illegal_move="loss")
    environment.reset(seed=1)
    environment.step(ChessAction(move="e2e5"))
    saved = environment.save_state()
    environment.reset()
    environment.restore_state(saved)
    assert environment.state.result == "0-1"


def test_what_is_no_saved_state_is_refused() -> None:
    environment = ChessEnvironment()
    environment.reset(seed=0)
    environment.step(ChessAction(move="e2e4"))
    saved = environment.save_state()
    for wrong in (
        None,
        {},
        {**saved, "more": 2},
        {**saved, "options": "{}"},
        {**saved, "agent_color": None},
        {**saved, "agent_color": "white"},
        {**saved, "np_random": {"bit_generator": "Generator"}},
        {**saved, "start_fen": "nonsense"},
        {**saved, "start_fen": "8/8/8/8/8/8/8/8 w - - 0 1"},
        {**saved, "moves": ["e2e5"]},
        {**saved, "moves": 5},
        {**saved, "moves": ["e2e4", "0000"]},
        {**saved, "moves": ["e2e4"]},  # the opponent is to move
        {**saved, "moves": []} | {"agent_color": False},
        {**saved, "illegal_moves": "many"},
        {**saved, "illegal_moves": float("inf")},
        {**saved, "episode_id": 3},
        {**saved, "step_count": -1},
    ):
        with pytest.raises(InvalidOptionError) as caught:
            environment.restore_state(wrong)
        assert caught.value.field == "saved"
    assert environment.save_state() == saved


def test_without_a_game_there_is_nothing_to_save() -> None:
    with pytest.raises(ResetNeededError):
        ChessEnvironment().save_state()
