"""Games of OpenSpiel as environments: spaces, rewards, ends, opponents, seeds."""

from __future__ import annotations

import gymnasium
import numpy as np
import pyspiel
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, Sequence
from gymnasium.utils.env_checker import check_env, env_render_passive_checker

from openenv_gym.errors import InvalidActionError, InvalidOptionError, ResetNeededError
from openspiel_env.server.games import load_game, tensor_size
from openspiel_env.server.openspiel_environment import OpenSpielEnvironment

from .play import make, play, same


GAMES = ("blackjack", "tic_tac_toe", "kuhn_poker", "2048", "catch", "cliff_walking", "matrix_rps")
WITH_PARAMETERS = (
    "misere(game=tic_tac_toe())",
    "kuhn_poker(players=3)",
    "goofspiel(imp_info=True,num_cards=4,points_order=descending)",
)


# Analyses what each contract of a deal would have made when a game ends: seconds each.
SLOW = ("bridge", "bridge_uncontested_bidding", "colored_trails")


def playable() -> list[str]:
    """Return all games that OpenSpiel loads without parameters, but for those it cannot step."""
    names = []
    for kind in pyspiel.registered_games():
        if (
            kind.default_loadable
            and kind.dynamics != pyspiel.GameType.Dynamics.MEAN_FIELD
            and not getattr(kind, "action_structs_only", False)
        ):
            names.append(kind.short_name)
    return names


@pytest.mark.parametrize("observation", ["info_state", "text"])
@pytest.mark.parametrize("game", GAMES)
def test_check_env(game, observation):
    check_env(make(game, observation=observation), skip_render_check=True)


@pytest.mark.parametrize("game", [*playable(), *WITH_PARAMETERS])
def test_every_game_stays_in_its_spaces(game):
    loaded = load_game(game)
    steps = 2 if game in SLOW else 20
    kinds = ("text",) if game in SLOW else ("info_state", "text")
    for observation in kinds if tensor_size(loaded) else ("text",):
        env = make(game, observation=observation, max_moves=12)
        first = play(env, steps)
        assert same(first, play(env, steps))
        mask = first[0][1]["action_mask"]
        assert (mask.dtype, mask.shape) == (np.int8, (loaded.num_distinct_actions(),))


def test_most_of_openspiels_games_are_playable():
    assert len(playable()) > 90


def test_spaces_are_those_of_the_readme():
    space = make("tic_tac_toe").observation_space
    assert list(space.spaces) == [
        "info_state",
        "legal_actions",
        "game_phase",
        "current_player_id",
        "opponent_last_action",
    ]
    assert isinstance(space, Dict)
    assert (type(space["info_state"]), space["info_state"].shape) == (Box, (27,))
    assert space["info_state"].dtype == np.float32
    assert space["legal_actions"] == MultiBinary(9)
    assert space["game_phase"] == Discrete(3)
    assert space["current_player_id"] == Discrete(6, start=-4)
    assert space["opponent_last_action"] == Discrete(10, start=-1)
    assert make("tic_tac_toe").action_space == Discrete(9)
    assert isinstance(make("chess").observation_space["legal_actions"], Sequence)


def test_a_game_of_tic_tac_toe():
    env = make("tic_tac_toe", opponent="first")
    observation, info = env.reset(seed=0)
    assert (observation["game_phase"], observation["current_player_id"]) == (0, 0)
    assert observation["opponent_last_action"] == -1
    assert info["action_mask"].tolist() == observation["legal_actions"].tolist() == [1] * 9
    observation, reward, terminated, truncated, info = env.step(4)
    assert observation["opponent_last_action"] == 0
    assert info["action_mask"].tolist() == [0, 1, 1, 1, 0, 1, 1, 1, 1]
    assert (observation["game_phase"], reward, terminated, truncated) == (1, 0.0, False, False)
    env.step(2)
    observation, reward, terminated, truncated, info = env.step(6)
    assert (reward, terminated, truncated) == (1.0, True, False)
    assert (observation["game_phase"], observation["current_player_id"]) == (2, -4)
    assert not observation["legal_actions"].any()
    assert info["returns"].tolist() == [1.0, -1.0]
    with pytest.raises(ResetNeededError):
        env.step(8)


def test_the_tensor_is_the_information_state_where_there_is_one():
    env = make("kuhn_poker")
    observation, _ = env.reset(seed=0)
    state = env.environment._match.state
    assert observation["info_state"].tolist() == state.information_state_tensor(0)
    env = make("2048")
    observation, _ = env.reset(seed=0)
    assert observation["info_state"].tolist() == env.environment._match.state.observation_tensor(0)


def test_rewards_come_with_their_steps():
    env = make("2048")
    results = play(env, 200, seed=3)
    rewards = [each[1] for each in results[1:]]
    assert sum(reward > 0 for reward in rewards) > 10
    assert sum(rewards) == results[-1][-1]["returns"][0]


def test_chance_is_drawn_as_often_as_it_is_likely():
    env = make("kuhn_poker")
    seeds = [0, *[None] * 599]
    cards = [int(np.argmax(env.reset(seed=seed)[0]["info_state"][2:5])) for seed in seeds]
    assert all(150 < count < 250 for count in np.bincount(cards, minlength=3))


def test_the_agent_is_the_player_that_it_asks_to_be():
    env = make("tic_tac_toe", agent_player=1, opponent="first")
    observation, info = env.reset(seed=0)
    assert (observation["current_player_id"], observation["opponent_last_action"]) == (1, 0)
    assert info["action_mask"].tolist() == [0] + [1] * 8


def test_a_game_that_others_end_at_once_is_dealt_again():
    # Blinds that force the first player to pay or to fold, which is the first action.
    poker = "universal_poker(blind=50 100,firstPlayer=1 1)"
    env = make(poker, agent_player=1, opponent="random")
    for seed in range(20):
        observation, info = env.reset(seed=seed)
        assert info["action_mask"].any() and observation["current_player_id"] == 1
        assert env.environment._match.state.history()[-1] > 0  # the other one has not folded
    with pytest.raises(RuntimeError, match="before player 1 had a choice"):
        make(poker, agent_player=1, opponent="first").reset(seed=0)


def test_players_of_simultaneous_moves_do_not_see_each_other():
    env = make("matrix_rps", agent_player=1, opponent="random")
    seen = [env.reset(seed=seed) for seed in range(10)]
    assert all(same(each, seen[0]) for each in seen)
    rewards = {env.reset(seed=seed) and env.step(0)[1] for seed in range(20)}
    assert rewards == {-1.0, 0.0, 1.0}


# Of simultaneous moves, of hidden squares, of hidden cards, and with rules on top of those.
HIDING = ("matrix_rps", "goofspiel", "phantom_ttt", "leduc_poker", "misere(game=phantom_ttt())")


@pytest.mark.parametrize("game", HIDING)
def test_what_others_do_in_a_game_that_hides_something_is_not_told(game):
    env = make(game, agent_player=1, opponent="random")
    results = play(env, 60)
    assert {int(each[0]["opponent_last_action"]) for each in results} == {-1}


@pytest.mark.parametrize("observation", ["info_state", "text"])
def test_a_hidden_square_is_in_nothing_that_a_reset_returns(observation):
    env = make("phantom_ttt", agent_player=1, observation=observation, render_mode="ansi")
    seen, squares = [], set()
    for seed in range(20):
        seen.append((*env.reset(seed=seed), env.render(), env.environment.legal_actions()))
        squares.update(env.environment._match.state.history())
    assert len(squares) > 5 and all(same(each, seen[0]) for each in seen)


def test_oneself_as_opponent_moves_for_all():
    env = make("tic_tac_toe", opponent="self")
    observation, _ = env.reset(seed=0)
    players, rewards = [int(observation["current_player_id"])], []
    for action in (0, 3, 1, 4, 8, 5):
        observation, reward, terminated, *_, info = env.step(action)
        players.append(int(observation["current_player_id"]))
        rewards.append(reward)
    assert players == [0, 1, 0, 1, 0, 1, -4]
    assert rewards == [0, 0, 0, 0, 0, 1.0]  # of the second player, who moved last and won
    assert terminated and info["returns"].tolist() == [-1.0, 1.0]


@pytest.mark.parametrize(("opponent", "answer"), [("first", 0), ("middle", 5), ("last", 8)])
def test_opponents_that_draw_nothing(opponent, answer):
    env = make("tic_tac_toe", opponent=opponent)
    env.reset(seed=0)
    assert env.step(4)[0]["opponent_last_action"] == answer


def test_tree_search_sees_a_threat_and_repeats_itself():
    def answers(seed: int) -> list[int]:
        env = make("tic_tac_toe", opponent="mcts", mcts_simulations=200)
        env.reset(seed=seed)
        return [int(env.step(action)[0]["opponent_last_action"]) for action in (0, 1)]

    assert all(answers(seed)[1] == 2 or answers(seed)[0] == 2 for seed in range(5))
    assert answers(3) == answers(3)
    env = make("connect_four", opponent="mcts", mcts_simulations=20)
    assert same(play(env, 30), play(env, 30))


@pytest.mark.parametrize(
    ("game", "why"),
    [("kuhn_poker", "hide"), ("matrix_rps", "hide"), ("2048", "rewards before its end")],
)
def test_tree_search_is_refused_where_it_would_cheat_or_fail(game, why):
    with pytest.raises(InvalidOptionError, match=why) as caught:
        make(game, opponent="mcts")
    assert caught.value.field == "opponent"


@pytest.mark.parametrize("game", ["blackjack", "kuhn_poker", "2048", "negotiation", "goofspiel"])
def test_equal_seeds_are_equal_games(game):
    one, two = make(game), make(game)
    assert same(play(one, 60, seed=5), play(two, 60, seed=5))
    # A reset without a seed goes on with the generator.
    assert same(play(one, 60, seed=None), play(two, 60, seed=None))
    assert not same(play(one, 60, seed=5), play(two, 60, seed=6))


# -- illegal actions and limits -------------------------------------------------------------------


def test_an_illegal_action_is_a_loss():
    env = make("tic_tac_toe")
    env.reset(seed=0)
    env.step(4)
    observation, reward, terminated, truncated, info = env.step(4)
    assert (reward, terminated, truncated) == (-1.0, True, False)
    assert (observation["game_phase"], observation["current_player_id"]) == (2, -4)
    assert info["illegal_action"] and not info["action_mask"].any()
    assert observation in env.observation_space
    with pytest.raises(ResetNeededError):
        env.step(0)
    assert "illegal_action" not in env.reset()[1]


def test_a_loss_is_the_worst_return_whatever_was_gained_before():
    env = make("2048")
    total = sum(each[1] for each in play(env, 50, seed=1)[1:])
    while len(legal := [each["action_id"] for each in env.environment.legal_actions()]) == 4:
        total += env.step(0)[1]
    (blocked, *_) = {0, 1, 2, 3}.difference(legal)
    assert total > 0
    assert total + env.step(blocked)[1] == load_game("2048").min_utility() == 0.0


def test_an_illegal_action_costs_a_penalty():
    env = make("tic_tac_toe", illegal_action="penalty", illegal_penalty=0.25, opponent="first")
    env.reset(seed=0)
    env.step(4)
    before = env.environment._match.state.history()
    _, reward, terminated, truncated, info = env.step(0)
    assert (reward, terminated, truncated) == (-0.25, False, False)
    assert info["illegal_action"] and env.environment._match.state.history() == before
    assert "illegal_action" not in env.step(8)[4]


def test_an_illegal_action_is_an_error():
    env = make("tic_tac_toe", illegal_action="error")
    env.reset(seed=0)
    env.step(4)
    with pytest.raises(InvalidActionError, match=r"action_id=4 is no legal action.*Legal are: x\("):
        env.step(4)
    assert env.environment.state.step_count == 1
    assert not env.step(np.flatnonzero([a != 4 for a in range(9)])[-1])[3]


def test_an_action_outside_the_space_is_refused():
    env = make("tic_tac_toe")
    env.reset(seed=0)
    for wrong in (9, -1, "x(0,0)", None):
        with pytest.raises(InvalidActionError):
            env.step(wrong)


def test_a_step_before_reset_is_refused():
    with pytest.raises(ResetNeededError):
        make().step(0)


def test_a_move_limit_truncates():
    env = make("2048", max_moves=3)
    results = play(env, 4)
    assert [each[2:4] for each in results[1:4]] == [(False, False)] * 2 + [(False, True)]
    assert env.environment.state.step_count == 0  # `play` has begun anew
    for _ in range(3):
        env.step(env.environment.legal_actions()[0]["action_id"])
    with pytest.raises(ResetNeededError):
        env.step(0)


def test_an_end_at_the_move_limit_is_no_cut():
    env = make("catch", max_moves=9)
    assert play(env, 10)[9][2:4] == (True, False)


# -- options --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"game": "tic_tac"}, "game"),
        ({"game": 3}, "game"),
        ({"game": ""}, "game"),
        ({"game": "misere(game=tic"}, "game"),
        ({"game": "misere"}, "game"),
        ({"game": "mfg_garnet"}, "game"),
        ({"game": "crossword"}, "game"),
        ({"game": "nfg_game"}, "game"),
        ({"game": "hex(board_size=100000)"}, "game"),
        ({"game": "kuhn_poker", "game_params": {"players": 11}}, "game_params"),
        ({"game": "kuhn_poker", "game_params": {"player": 2}}, "game_params"),
        ({"game": "kuhn_poker", "game_params": {"players": "two"}}, "game_params"),
        ({"game": "kuhn_poker", "game_params": {"players": [2]}}, "game_params"),
        ({"game": "kuhn_poker", "game_params": [2]}, "game_params"),
        ({"agent_player": 1}, "agent_player"),
        ({"agent_player": True}, "agent_player"),
        ({"agent_player": -1}, "agent_player"),
        ({"opponent": "best"}, "opponent"),
        ({"opponent": None}, "opponent"),
        ({"mcts_simulations": 0}, "mcts_simulations"),
        ({"mcts_simulations": 2.0}, "mcts_simulations"),
        ({"observation": "pixels"}, "observation"),
        ({"game": "cribbage"}, "observation"),
        ({"illegal_action": "shrug"}, "illegal_action"),
        ({"illegal_penalty": -1}, "illegal_penalty"),
        ({"illegal_penalty": float("nan")}, "illegal_penalty"),
        ({"max_moves": 0}, "max_moves"),
        ({"max_moves": "9"}, "max_moves"),
        ({"render_mode": "human"}, "render_mode"),
    ],
)
def test_wrong_options(options, field):
    with pytest.raises(InvalidOptionError) as caught:
        OpenSpielEnvironment(**options)
    assert caught.value.field == field


def test_a_misspelt_game_is_told_what_it_may_be():
    with pytest.raises(InvalidOptionError, match="Did you mean tic_tac_toe"):
        OpenSpielEnvironment("tictactoe")


# -- beside the game ------------------------------------------------------------------------------


def test_state_says_what_is_played():
    environment = OpenSpielEnvironment(
        "kuhn_poker", game_params={"players": 3}, agent_player=2, opponent="last"
    )
    environment.reset(seed=0)
    state = environment.state
    assert (state.game_name, state.game_params, state.num_players) == (
        "kuhn_poker",
        {"players": 3},
        3,
    )
    assert (state.agent_player, state.opponent_policy, state.step_count) == (2, "last", 0)


def test_render_shows_what_the_player_sees():
    env = make("blackjack", render_mode="ansi")
    env.reset(seed=0)
    assert "Dealer: Cards: ??" in env.render()
    env_render_passive_checker(env)
    silent = make("blackjack")
    silent.reset(seed=0)
    assert silent.render() is None


def test_agents_are_told_what_is_legal():
    environment = OpenSpielEnvironment("tic_tac_toe", opponent="first")
    environment.reset(seed=0)
    environment.step(environment.action_model(action_id=4))
    assert environment.legal_actions() == [{"action_id": each} for each in (1, 2, 3, 5, 6, 7, 8)]


def test_a_loaded_game_may_be_a_vector():
    envs = gymnasium.vector.SyncVectorEnv([lambda: make("tic_tac_toe")] * 3)
    observations, infos = envs.reset(seed=0)
    assert observations["info_state"].shape == (3, 27)
    assert infos["action_mask"].shape == (3, 9)
    envs.close()
