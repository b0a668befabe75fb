"""Games in words: prompts, answers, blackjack by both rules, tools."""

from __future__ import annotations

import asyncio

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from openenv_gym.errors import InvalidActionError, InvalidOptionError, ResetNeededError
from openenv_gym.models import CallToolAction, ListToolsAction
from openspiel_env.models import MAX_PROMPT_LENGTH, TextAction
from openspiel_env.server.blackjack import TextBlackjackEnvironment
from openspiel_env.server.openspiel_environment import OpenSpielEnvironment
from openspiel_env.server.tables import TABLES, Hand
from openspiel_env.server.text import find_action, to_prompt

from .play import make, make_blackjack, play, same


RULES = pytest.mark.parametrize("rules", TABLES)


@pytest.mark.parametrize(
    ("message", "names", "index"),
    [
        ("hit", ("hit", "stand"), 0),
        ("I could hit, but with 19 I **Stand**.", ("hit", "stand"), 1),
        ("<answer>HIT</answer>", ("hit", "stand"), 0),
        ("a white standard", ("hit", "stand"), None),
        ("", ("hit", "stand"), None),
        ("hit", (), None),
        ("x(0,1)!", ("x(0,0)", "x(0,1)"), 1),
        ("Bid: 1 heart", ("Bid: 1", "Bid: 1 heart"), 1),
        ("bxc3", ("Bxc3", "bxc3"), 1),
        ("Bxc3", ("Bxc3", "bxc3"), 0),
        ("♥ ← a♥", ("♠ ← A♠", "♥ ← A♥"), 1),
    ],
)
def test_the_action_that_is_named_last_counts(message, names, index):
    assert find_action(message, names) == index


def test_a_prompt_is_cut_in_the_middle_and_keeps_to_its_characters():
    assert to_prompt("♠ 7\n\0é") == "♠ 7\n??"
    long = to_prompt("a" * 20_000 + "z")
    assert len(long) <= MAX_PROMPT_LENGTH and long.endswith("z") and "[...]" in long


def test_a_prompt_says_what_there_is_to_see_and_to_do():
    env = make("tic_tac_toe", observation="text", opponent="first")
    prompt, info = env.reset(seed=0)
    assert prompt.splitlines()[:4] == [
        "You are playing Tic Tac Toe. You are player 0 of 2.",
        "...",
        "...",
        "...",
    ]
    assert "Legal actions: x(0,0), x(0,1)" in prompt
    assert info["legal_actions"][4] == "x(1,1)"
    prompt, reward, terminated, _, info = env.step("The centre is best: x(1,1).")
    assert "o..\n.x.\n..." in prompt and (reward, terminated) == (0.0, False)
    assert "x(0,0)" not in info["legal_actions"]
    env.step("x(0,2)")
    prompt, reward, terminated, _, info = env.step("X(2,0)")
    assert (reward, terminated, info["legal_actions"]) == (1.0, True, [])
    assert prompt.endswith("The game is over. Returns by player: 1, -1.")


def test_a_prompt_of_hidden_cards_holds_ones_own_alone():
    env = make("leduc_poker", observation="text", opponent="self")
    prompt, _ = env.reset(seed=0)
    cards = env.environment._match.state.history()
    assert f"[Private: {cards[0]}]" in prompt and f"[Private: {cards[1]}]" not in prompt
    assert str(env.environment._match.state) not in prompt


def test_words_and_numbers_are_the_same_games():
    by_number, in_words = make("kuhn_poker"), make("kuhn_poker", observation="text")
    _, info = by_number.reset(seed=4)
    _, told = in_words.reset(seed=4)
    rng = np.random.default_rng(0)
    for _ in range(60):
        action = rng.choice(np.flatnonzero(info["action_mask"]))
        index = np.flatnonzero(info["action_mask"]).tolist().index(action)
        *_, reward, terminated, _, info = by_number.step(action)
        step = in_words.step(told["legal_actions"][index])
        told = step[-1]
        assert same(step[1:3], (reward, terminated))
        assert same(told["action_mask"], info["action_mask"])
        if terminated:
            (_, info), (_, told) = by_number.reset(), in_words.reset()


def test_an_answer_that_names_nothing_is_a_loss_or_costs():
    env = make("tic_tac_toe", observation="text")
    env.reset(seed=0)
    prompt, reward, terminated, _, info = env.step("I resign!")
    assert (reward, terminated, info["illegal_action"]) == (-1.0, True, True)
    assert "'I resign!' is no legal action." in prompt and "forfeited" in prompt
    env = make("tic_tac_toe", observation="text", illegal_action="penalty")
    first, _ = env.reset(seed=0)
    prompt, reward, terminated, *_ = env.step("I resign!")
    assert (reward, terminated) == (-0.1, False)
    assert prompt == f"'I resign!' is no legal action.\n{first}"
    assert "resign" not in env.step("x(0,0)")[0]
    env = make("tic_tac_toe", observation="text", illegal_action="error")
    env.reset(seed=0)
    with pytest.raises(InvalidActionError, match=r"Legal are: x\(0,0\)"):
        env.step("I resign!")


def test_numbers_are_taken_from_typed_clients_in_words_too():
    environment = OpenSpielEnvironment("tic_tac_toe", observation="text", opponent="first")
    environment.reset(seed=0)
    action = environment.read_action({"action_id": 4, "game_name": "catch", "game_params": {}})
    assert "o..\n.x." in environment.step(action).prompt
    assert environment.read_action({"message": "x(0,1)"}) == TextAction(message="x(0,1)")


# -- blackjack ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ranks", "total", "usable"),
    [
        ((1, 13), 21, True),
        ((1, 6), 17, True),
        ((1, 6, 10), 17, False),
        ((1, 1), 12, True),
        ((1, 1, 9, 10), 21, False),
        ((11, 12), 20, False),
        ((10, 9, 3), 22, False),
    ],
)
def test_hands(ranks, total, usable):
    hand = Hand(ranks)
    assert (hand.total, hand.usable_ace) == (total, usable)


def test_a_hand_in_words():
    assert str(Hand((1, 6))) == "ace, 6 (total 17, an ace counts 11)"
    assert str(Hand((13, 6, 1))) == "king, 6, ace (total 17)"
    assert str(Hand((12,))) == "queen"


@RULES
def test_check_env(rules):
    check_env(make_blackjack(rules), skip_render_check=True)


def test_gymnasiums_rules_are_gymnasiums_games():
    env, original = make_blackjack("gymnasium"), gymnasium.make("Blackjack-v1")
    rng = np.random.default_rng(0)
    for seed in (0, None, None, 7, *[None] * 100):
        (prompt, info), ((total, dealer, ace), _) = env.reset(seed=seed), original.reset(seed=seed)
        over = False
        while not over:
            assert (info["player_total"], info["usable_ace"]) == (total, bool(ace))
            assert info["dealer_total"] == (11 if dealer == 1 else dealer)
            hit = bool(rng.integers(2))
            prompt, reward, over, _, info = env.step("hit" if hit else "stand")
            (total, dealer, ace), expected, ended, *_ = original.step(int(hit))
            assert (reward, over) == (expected, ended)
        won = {1.0: "you win", -1.0: "you lose", 0.0: "a draw"}[reward]
        assert prompt.endswith(f"The game is over: {won}.")
    original.close()


def test_openspiels_rules_are_openspiels_games():
    env, original = make_blackjack("openspiel"), make("blackjack")
    rng = np.random.default_rng(0)
    for seed in (0, None, None, 7, *[None] * 60):
        (_, info), (_, told) = env.reset(seed=seed), original.reset(seed=seed)
        over = False
        while not over:
            cards = original.environment._match.state.observation_string(0)
            assert env.environment._table.player.total == info["player_total"] <= 21
            assert len(env.environment._table.player.ranks) == len(cards.split("\n")[2].split()) - 3
            number = int(rng.choice(np.flatnonzero(told["action_mask"])))
            _, reward, over, _, info = env.step(("hit", "stand")[number])
            _, expected, ended, _, told = original.step(number)
            assert (reward, over) == (expected, ended)


@RULES
def test_the_dealers_second_card_is_hidden_until_the_end(rules):
    env = make_blackjack(rules)
    prompt, _ = env.reset(seed=0)
    assert len(env.environment._table.dealer.ranks) == 1
    assert prompt.splitlines()[-1] == "Answer with one word: hit or stand."
    prompt, *_ = env.step("stand")
    assert len(env.environment._table.dealer.ranks) >= 2 and "The dealer's cards: " in prompt


@RULES
def test_equal_seeds_are_equal_games(rules):
    assert same(play(make_blackjack(rules), 60), play(make_blackjack(rules), 60))
    assert not same(play(make_blackjack(rules), 60), play(make_blackjack(rules), 60, seed=1))


@RULES
def test_an_answer_that_names_nothing_loses_at_blackjack(rules):
    env = make_blackjack(rules)
    env.reset(seed=0)
    prompt, reward, terminated, truncated, info = env.step("Double down!")
    assert (reward, terminated, truncated) == (-1.0, True, False)
    assert info["illegal_action"] and "forfeited" in prompt
    with pytest.raises(ResetNeededError):
        env.step("hit")


def test_limits_and_penalties_hold_at_blackjack():
    env = make_blackjack(illegal_action="penalty", illegal_penalty=1, max_moves=2)
    env.reset(seed=0)
    assert env.step("hmm")[1:4] == (-1.0, False, False)
    assert env.step("hmm")[1:4] == (-1.0, False, True)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"rules": "macau"}, "rules"),
        ({"illegal_action": None}, "illegal_action"),
        ({"illegal_penalty": "1"}, "illegal_penalty"),
        ({"max_moves": True}, "max_moves"),
        ({"render_mode": "rgb_array"}, "render_mode"),
    ],
)
def test_wrong_options(options, field):
    with pytest.raises(InvalidOptionError) as caught:
        TextBlackjackEnvironment(**options)
    assert caught.value.field == field


def test_render_is_the_prompt():
    env = make_blackjack(render_mode="ansi")
    prompt, _ = env.reset(seed=0)
    assert env.render() == prompt
    assert make_blackjack().render() is None


# -- tools ----------------------------------------------------------------------------------------


def call(environment, name, **arguments):
    return environment.step(CallToolAction(tool_name=name, arguments=arguments))


def test_tools_play_blackjack():
    environment = TextBlackjackEnvironment()
    environment.reset(seed=0)
    tools = {each.name: each for each in environment.step(ListToolsAction()).tools}
    assert sorted(tools) == ["legal_actions", "play"]
    assert tools["play"].input_schema["required"] == ["action"]
    listed = call(environment, "legal_actions")
    assert (listed.result, listed.reward, listed.done) == (["hit", "stand"], None, False)
    played = call(environment, "play", action="stand")
    assert played.result.endswith(("you win.", "you lose.", "a draw."))
    assert (type(played.reward), played.done, played.truncated) == (float, True, False)
    assert environment.state.step_count == 2
    assert environment.legal_actions() == call(environment, "legal_actions").result == []
    again = call(environment, "play", action="stand")
    assert again.error.error_type.value == "execution_error" and "reset" in again.error.message
    assert (again.reward, again.done) == (None, False)
    environment.close()


def test_tools_play_any_game():
    environment = OpenSpielEnvironment("tic_tac_toe", opponent="first", illegal_action="penalty")
    environment.reset(seed=0)
    assert call(environment, "legal_actions").result[:2] == ["x(0,0)", "x(0,1)"]
    played = call(environment, "play", action="x(1,1)")
    assert "o..\n.x." in played.result and (played.reward, played.done) == (0.0, False)
    assert played.metadata["action_mask"].tolist() == [0, 1, 1, 1, 0, 1, 1, 1, 1]
    wrong = call(environment, "play", action="x(1,1)")
    assert wrong.reward == -0.1 and "is no legal action" in wrong.result
    assert wrong.metadata["illegal_action"]
    environment.close()


def test_the_client_plays_and_calls_tools():
    from openspiel_env import OpenSpielAction, OpenSpielEnv
    from openspiel_env.server.app import app
    from tests.support.serving import serving

    async def check(url: str, protocol: str) -> list:
        async with OpenSpielEnv(base_url=url, protocol=protocol) as client:
            first = (await client.reset(seed=3)).observation
            assert (first.game_phase, first.opponent_last_action) == ("initial", None)
            assert first.legal_actions == [0, 1, 2] and len(first.info_state) == 50
            result = await client.step(OpenSpielAction(action_id=2, game_name="catch"))
            assert result.observation.game_phase == "playing"
            assert "Catch" in await client.call_tool("play", action="stay")
            state = await client.state()
            assert (state.game_name, state.num_players, state.step_count) == ("catch", 1, 2)
            return [first, result.observation.info_state, result.reward]

    with serving(app) as url:
        both = [asyncio.run(check(url, protocol)) for protocol in ("binary", "json")]
    assert both[0][1:] == both[1][1:]
    with (
        serving(app.with_options({"rules": "openspiel"})) as url,
        OpenSpielEnv(base_url=url).sync() as client,
    ):
        assert "Answer with one word" in client.reset(seed=1).observation.prompt
        result = client.step(TextAction(message="Ich passe — 我停牌: stand"))
        assert result.done and result.observation.prompt.count("dealer") == 2
