"""TextArena's games: play, opponents, seeds, options, tools, saved states."""

from __future__ import annotations

import importlib.util
import json
import random
import subprocess
import sys

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env, data_equivalence

import openenv_gym  # noqa: F401  # registers the ids
from openenv_gym.errors import InvalidOptionError, ResetNeededError
from openenv_gym.models import CallToolAction, ListToolsAction
from openenv_gym.server.adapter import TypedEnv


if importlib.util.find_spec("textarena") is None:  # not imported, which would find NLTK
    pytest.skip("needs textarena", allow_module_level=True)

from textarena_env import TextArenaAction, TextArenaEnv
from textarena_env.models import CHARACTERS
from textarena_env.server.game import Game, _clean
from textarena_env.server.opponent import random_move
from textarena_env.server.textarena_environment import TextArenaEnvironment
from textarena_env.server.words import nltk_stand_in

from .play import GUESS, TICTACTOE, make, move, play


@pytest.mark.parametrize("game", [GUESS, TICTACTOE])
def test_check_env(game):
    check_env(make(game), skip_render_check=True)


def test_a_number_is_guessed():
    env = make()
    observation, info = env.reset(seed=0)
    assert "between 1 and 20" in observation["prompt"]
    assert observation["messages"][0]["content"] == observation["prompt"]
    assert (observation["current_player_id"], observation["legal_players"].tolist()) == (0, [0])
    assert info == {"turn": 0, "invalid": False}
    low, high, rewards = 1, 20, []
    while low <= high:
        guess = (low + high) // 2
        observation, reward, terminated, truncated, info = env.step(f"[{guess}]")
        rewards.append(reward)
        if terminated:
            break
        text = observation["messages"][-1]["content"]
        low, high = (guess + 1, high) if "higher" in text else (low, guess - 1)
    assert (terminated, truncated, rewards[-1]) == (True, False, 1.0)
    assert set(rewards[:-1]) <= {0.0}
    assert info["rewards"] == {"0": 1.0}
    assert "guessed" in info["reason"]
    with pytest.raises(ResetNeededError, match="over"):
        env.step("[1]")


def test_a_move_that_is_refused_may_be_made_again_once():
    env = make()
    env.reset(seed=0)
    observation, reward, terminated, _, info = env.step("what?")
    assert (reward, terminated, info["invalid"], info["turn"]) == (0.0, False, True, 0)
    assert "invalid move" in observation["messages"][-1]["content"]
    assert not env.step("[3]")[4]["invalid"]
    env.step("what?")
    _, _, terminated, _, info = env.step("what??")
    assert (terminated, info["invalid"]) == (True, True)


@pytest.mark.parametrize("player_id", [0, 1])
def test_an_opponent_who_moves_at_random_makes_legal_moves(player_id):
    env = make(TICTACTOE, player_id=player_id)
    rng = np.random.default_rng(0)
    ends = []
    for seed in range(10):
        observation, info = env.reset(seed=seed)
        assert (observation["current_player_id"], info["turn"]) == (player_id, player_id)
        done = False
        while not done:
            observation, reward, done, _, info = env.step(move(observation, rng))
        assert "invalid" not in info["reason"]
        assert info["rewards"][str(player_id)] == reward
        ends.append(reward)
    assert {-1.0, 1.0} <= set(ends)


@pytest.mark.parametrize("game", ["ConnectFour-v0", "KuhnPoker-v0", "Othello-v0-tiny"])
def test_random_moves_are_taken(game):
    match, rng = Game(game), np.random.default_rng(1)
    match.start(2, seed=1)
    while not match.over:
        assert match.say(random_move(match, rng))
    assert sorted(match.rewards) == [0, 1]


def test_self_play_shows_each_player_its_own_texts():
    env = make(TICTACTOE, opponent="self")
    observation, _ = env.reset(seed=0)
    seen = [(observation["current_player_id"], observation["prompt"])]
    for square in (0, 3, 1, 4):
        observation, reward, *_ = env.step(f"[{square}]")
        assert reward == 0.0
        seen.append((observation["current_player_id"], observation["prompt"]))
    assert [player for player, _ in seen] == [0, 1, 0, 1, 0]
    assert all(f"You are Player {player}" in prompt for player, prompt in seen)
    _, reward, terminated, _, info = env.step("[2]")
    assert (reward, terminated, info["rewards"]) == (1.0, True, {"0": 1.0, "1": -1.0})


def test_equal_seeds_equal_games():
    for game, options in ((GUESS, {}), (TICTACTOE, {"player_id": 1})):
        one, two = (play(make(game, **options), 40) for _ in range(2))
        assert data_equivalence(one, two, exact=True)


def test_games_side_by_side_do_not_disturb_each_other_nor_the_process():
    alone = play(make(), 20)
    random.seed(7), np.random.seed(7)
    wanted = random.random(), np.random.random()
    random.seed(7), np.random.seed(7)
    env, other = make(), make(TICTACTOE)
    rng = np.random.default_rng(3)
    together = [env.reset(seed=3)]
    other.reset(seed=1)
    for _ in range(20):
        action = move(together[-1][0], rng)
        if other.step("[0]")[2]:
            other.reset()
        together.append(env.step(action))
        if together[-1][2]:
            together.append(env.reset())
    assert data_equivalence(together, alone, exact=True)
    assert (random.random(), np.random.random()) == wanted


def test_wordle_has_well_known_words_in_every_process():
    code = (
        "from textarena_env.server.game import Game\n"
        "import sys\n"
        "game = Game('Wordle-v0'); game.start(1, 5)\n"
        "assert game.say('[crane]') and not game.say('[xxxxx]')\n"
        "print(len(game._game.word_list), game._game.state.game_state['secret_word'])\n"
        "assert not any(name in sys.modules for name in ('nltk', 'openai', 'torch'))\n"
    )
    started = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", code],
            env={"PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": hashing},
            stdout=subprocess.PIPE,
            text=True,
        )
        for hashing in ("1", "2")
    ]
    said = [each.communicate(timeout=100)[0] for each in started]
    assert [each.returncode for each in started] == [0, 0]
    assert said[0] == said[1]
    assert int(said[0].split()[0]) > 200


def test_the_stand_in_is_there_for_the_games_alone():
    before = sys.modules.get("nltk")
    with nltk_stand_in():
        import nltk

        assert "apple" in nltk.corpus.words.words("en-basic")
        assert set(nltk.corpus.words.words("en-basic")) < set(nltk.corpus.words.words())
        assert nltk.pos_tag(["apple", "xyz"]) == [("apple", "NN"), ("xyz", "XX")]
    assert sys.modules.get("nltk") is before


def test_texts_lie_in_their_space():
    assert _clean("a\x00b\u2660\U0001f0a1", 9) == "a\ufffdb\u2660\U0001f0a1"
    assert _clean("x" * 20, 10) == "x" * 9 + "…"
    assert len(set(CHARACTERS)) == len(CHARACTERS)
    env = make()
    env.reset(seed=0)
    observation, *_ = env.step("♠ “[3]” 🙂")
    assert observation in env.observation_space


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"env_id": "GuessTheNumbr-v0"}, "env_id"),
        ({"env_id": ["GuessTheNumber-v0"]}, "env_id"),
        ({"env_id": "TwentyQuestions-v0"}, "env_id"),
        ({"num_players": 0}, "num_players"),
        ({"num_players": 2}, "num_players"),
        ({"env_id": TICTACTOE, "num_players": 1}, "num_players"),
        ({"player_id": 1}, "player_id"),
        ({"opponent": "strong"}, "opponent"),
        ({"max_turns": 0}, "max_turns"),
        ({"env_kwargs": {"colour": "red"}}, "env_kwargs"),
        ({"env_kwargs": "max_number=5"}, "env_kwargs"),
        ({"render_mode": "rgb_array"}, "render_mode"),
    ],
    ids=str,
)
def test_wrong_options(options, field, monkeypatch):
    monkeypatch.delenv("OPENROUTER_API_KEY", raising=False)
    with pytest.raises(InvalidOptionError, match=field) as caught:
        make(**options)
    assert caught.value.field == field


def test_a_misspelt_game_is_guessed():
    with pytest.raises(InvalidOptionError, match="Did you mean .*GuessTheNumber-v0"):
        make("GuessTheNumbr-v0")


def test_what_the_game_is_made_with():
    env = make(env_kwargs={"max_number": 3})
    assert "between 1 and 3" in env.reset(seed=0)[0]["prompt"]


def test_rendering():
    env = make(render_mode="ansi")
    env.reset(seed=0)
    assert "between 1 and 20" in env.render()
    env.step("what?")
    assert "invalid move" in env.render()
    silent = make()
    silent.reset(seed=0)
    assert silent.render() is None


def test_the_state_tells_no_secrets():
    env = make()
    env.reset(seed=0)
    env.step("what?")
    state = env.environment.state.model_dump()
    assert (state["env_id"], state["num_players"], state["turn"]) == (GUESS, 1, 0)
    assert state["last_info"] == {"turn": 0, "invalid": True}
    assert "game_number" not in json.dumps(state)


def test_tools():
    environment = TextArenaEnvironment(env_id=TICTACTOE, max_turns=1)
    environment.reset(seed=0)
    names = [each.name for each in environment.step(ListToolsAction()).tools]
    assert names == ["say", "rules"]
    rules = environment.step(CallToolAction(tool_name="rules", arguments={}))
    assert "Tic Tac Toe" in rules.result
    assert (rules.reward, rules.done) == (None, False)
    said = environment.step(CallToolAction(tool_name="say", arguments={"message": "[4]"}))
    assert "Player 0 placed" in said.result
    assert (said.reward, said.done, said.truncated, said.metadata["invalid"]) == (
        0.0,
        True,
        True,
        False,
    )
    after = environment.step(CallToolAction(tool_name="say", arguments={"message": "[5]"}))
    assert "over" in after.error.message
    environment.close()


@pytest.mark.parametrize("options", [{"player_id": 1}, {"opponent": "self"}], ids=str)
def test_a_saved_state_brings_back_everything(options):
    options = {**options, "env_id": TICTACTOE, "render_mode": "ansi"}
    env, other = make(**options), make(**options)
    observation, _ = env.reset(seed=1)
    observation, *_ = env.step(move(observation, np.random.default_rng(0)))
    saved = json.loads(json.dumps(env.environment.save_state()))
    seen, state = env.render(), env.environment.state

    def go_on(each: TypedEnv) -> list:
        rng, found, last = np.random.default_rng(0), [], observation
        for _ in range(2):
            found.append(each.step(move(last, rng)))
            last = found[-1][0]
        return [*found, each.reset()]

    expected = go_on(env)
    other.reset(seed=9)
    for each in (env, other):
        each.environment.restore_state(saved)
        assert (each.render(), each.environment.state) == (seen, state)
        assert data_equivalence(go_on(each), expected, exact=True)


def test_what_is_no_saved_state_is_refused():
    environment = TextArenaEnvironment(env_id=GUESS)
    environment.reset(seed=0)
    environment.step(TextArenaAction(message="[3]"))
    saved = environment.save_state()
    for wrong in (
        None,
        {},
        TextArenaEnvironment(env_id=TICTACTOE).save_state(),
        {**saved, "seed": -1},
        {**saved, "seed": 1 << 40},
        {**saved, "said": "[3]"},
        {**saved, "said": [3]},
        {**saved, "said": ["x" * 10_000]},
        {**saved, "said": ["what?"] * 5},
        {**saved, "said": ["[3]"] * 10_001},
    ):
        with pytest.raises(InvalidOptionError, match="not a saved state") as caught:
            environment.restore_state(wrong)
        assert caught.value.field == "saved"
        assert environment.save_state() == saved
    assert not environment.step(TextArenaAction(message="[5]")).metadata["invalid"]


@pytest.mark.parametrize("protocol", ["binary", "json"])
def test_the_typed_client(protocol):
    options = {"env_id": GUESS} if protocol == "binary" else None
    handle = TextArenaEnv.from_env(
        "textarena_env", provider="thread", options=options, protocol=protocol
    )
    with handle.sync() as client:
        observation = client.reset(seed=1).observation
        assert observation.messages[0].category == "PROMPT"
        result = client.step(TextArenaAction(message="what? “…”"))
        assert (result.reward, result.done, result.metadata["invalid"]) == (0.0, False, True)
        assert (
            "Player" in client.call_tool("rules") or "playing" in client.call_tool("rules").lower()
        )
        assert client.state().turn == 0
