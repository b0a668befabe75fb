"""Games saved and brought back."""

from __future__ import annotations

import json

import numpy as np
import pytest

from openenv_gym.errors import InvalidOptionError
from openspiel_env.server.openspiel_environment import OpenSpielEnvironment

from .play import make, make_blackjack, play, same


def is_plain(value) -> bool:
    return json.loads(json.dumps(value)) == value


def go_on(env, steps: int = 30) -> list:
    """Play from where the environment is."""
    rng = np.random.default_rng(9)
    results = []
    for _ in range(steps):
        legal = env.environment.legal_actions()
        if not legal:
            results.append(env.reset())
            continue
        (action,) = legal[rng.integers(len(legal))].values()
        results.append(env.step(action))
        if results[-1][3]:
            results.append(env.reset())
    return results


@pytest.mark.parametrize(
    ("game", "options"),
    [
        ("blackjack", {}),
        ("tic_tac_toe", {"opponent": "mcts", "mcts_simulations": 20}),
        ("kuhn_poker", {"opponent": "self"}),
        ("2048", {"observation": "text"}),
        ("goofspiel", {"game_params": {"num_cards": 4}, "max_moves": 3}),
        ("chess", {"agent_player": 1}),
    ],
)
def test_a_saved_state_brings_back_everything(game, options):
    env = make(game, **options)
    play(env, 4, seed=2)
    saved, state = env.environment.save_state(), env.environment.state
    assert is_plain(saved)
    expected = go_on(env)
    other = make(game, **options)
    other.reset(seed=77)
    for restored in (env, other):
        restored.environment.restore_state(saved)
        assert restored.environment.state == state
        assert restored.environment.save_state() == saved
        assert same(go_on(restored), expected)


@pytest.mark.parametrize("rules", ["gymnasium", "openspiel"])
def test_blackjack_is_brought_back(rules):
    env = make_blackjack(rules)
    env.reset(seed=2)
    saved, state = env.environment.save_state(), env.environment.state
    assert is_plain(saved)
    expected = go_on(env)
    other = make_blackjack(rules)
    for restored in (env, other):
        restored.environment.restore_state(saved)
        assert restored.environment.state == state
        assert same(go_on(restored), expected)


def test_a_forfeited_game_stays_forfeited():
    env = make("tic_tac_toe")
    env.reset(seed=0)
    env.step(4)
    env.step(4)
    saved = env.environment.save_state()
    env.reset()
    env.environment.restore_state(saved)
    assert env.environment.legal_actions() == []


def test_a_state_that_tells_what_is_hidden_tells_it_to_nobody():
    env = make("phantom_ttt", agent_player=1)
    env.reset(seed=0)
    saved = env.environment.save_state()
    assert saved["opponent_action"] == -1
    # As it was saved once.
    env.environment.restore_state({**saved, "opponent_action": saved["history"][0]})
    assert env.environment.save_state() == saved
    env.action_space.seed(0)
    assert env.step(env.action_space.sample())[0]["opponent_last_action"] == -1


def test_what_is_no_saved_state_is_refused():
    environment = OpenSpielEnvironment("tic_tac_toe")
    environment.reset(seed=0)
    saved = environment.save_state()
    other = OpenSpielEnvironment("tic_tac_toe", opponent="first")
    other.reset(seed=0)
    for wrong in (
        None,
        {},
        OpenSpielEnvironment("connect_four").save_state(),
        other.save_state(),
        {**saved, "more": 1},
        {**saved, "np_random": {"bit_generator": "MT19937"}},
        {**saved, "moves": "many"},
        {**saved, "running": 1},
        {**saved, "history": "garbage"},
        {**saved, "history": [99]},
        {**saved, "history": [0, 0]},
        {**saved, "history": [0]},
        {**saved, "history": [0, 3, 1, 4, 2]},
        {**saved, "history": [10**30]},
        {**saved, "player": 2},
        {**saved, "player": 1},
        {**saved, "opponent_action": 9},
        {**saved, "opponent_action": -2},
    ):
        with pytest.raises(InvalidOptionError) as caught:
            environment.restore_state(wrong)
        assert caught.value.field == "saved"
    assert environment.save_state() == saved


@pytest.mark.parametrize(("rules", "other"), [("gymnasium", "openspiel")])
def test_what_is_no_saved_blackjack_is_refused(rules, other):
    environment = make_blackjack(rules).environment
    environment.reset(seed=0)
    saved = environment.save_state()
    for wrong in (
        {},
        make_blackjack(other).environment.save_state(),
        {**saved, "gained": "much"},
        {**saved, "gained": float("nan")},
        {**saved, "player": []},
        {**saved, "player": [11]},
        {**saved, "over": True},
    ):
        with pytest.raises(InvalidOptionError) as caught:
            environment.restore_state(wrong)
        assert caught.value.field == "saved"
    assert environment.save_state() == saved


def test_what_cannot_be_saved_says_so():
    environment = OpenSpielEnvironment("negotiation")
    environment.reset(seed=0)
    with pytest.raises(NotImplementedError, match="generator"):
        environment.save_state()
