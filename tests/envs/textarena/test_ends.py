"""How TextArena's games end: whose text broke them off, who is told when, and limits."""

from __future__ import annotations

import importlib.util
import json

import pytest
from gymnasium.utils.env_checker import data_equivalence

import openenv_gym  # noqa: F401  # registers the ids
from openenv_gym.errors import InvalidOptionError, ResetNeededError


if importlib.util.find_spec("textarena") is None:  # not imported, which would find NLTK
    pytest.skip("needs textarena", allow_module_level=True)

from textarena_env import TextArenaAction, TextArenaEnv

from .play import TICTACTOE, make


def test_a_game_that_breaks_off_is_lost(monkeypatch):
    env = make()
    env.reset(seed=0)

    def break_off(action):
        raise IndexError("out of cards")

    monkeypatch.setattr(env.environment._match.game._game, "step", break_off)
    observation, reward, terminated, _, info = env.step("[3]")
    assert (reward, terminated) == (-1.0, True)
    assert info["reason"] == "The game broke off: IndexError: out of cards"
    assert observation in env.observation_space


def break_off_for(player, game, monkeypatch):
    """Have a game raise an exception at whatever a player says."""
    kind, step = type(game), type(game).step

    def broken(self, action):
        if self.state.current_player_id == player:
            raise IndexError("out of cards")
        return step(self, action)

    monkeypatch.setattr(kind, "step", broken)


@pytest.mark.parametrize(
    ("game", "options", "breaker", "rewards"),
    [
        (TICTACTOE, {}, 1, {"0": 1.0, "1": -1.0}),
        (TICTACTOE, {"player_id": 1}, 0, {"0": -1.0, "1": 1.0}),
        (TICTACTOE, {"player_id": 1}, 1, {"0": 1.0, "1": -1.0}),
        (TICTACTOE, {"opponent": "self"}, 0, {"0": -1.0, "1": 1.0}),
        ("ThreePlayerTicTacToe-v0", {}, 2, {"0": 0.0, "1": 0.0, "2": -1.0}),
    ],
)
def test_whose_text_breaks_a_game_off_has_lost_it(game, options, breaker, rewards, monkeypatch):
    env = make(game, **options)
    break_off_for(breaker, env.environment._match.game._game, monkeypatch)
    _, info = env.reset(seed=0)
    assert "reason" not in info
    _, reward, terminated, truncated, info = env.step("[4]")
    assert (terminated, truncated, info["rewards"]) == (True, False, rewards)
    assert reward == rewards[str(options.get("player_id", 0))]
    assert info["reason"] == "The game broke off: IndexError: out of cards"


ENDED = ("WordChains-v0", "SpellingBee-v0")  # by the one who moves first, and finds no word


@pytest.mark.parametrize("game", ENDED)
def test_an_end_before_the_agents_first_move_comes_with_that(game):
    env = make(game, player_id=1, render_mode="ansi")
    observation, info = env.reset(seed=0)
    assert info == {"turn": 1, "invalid": False}
    assert observation["messages"][-1]["sender_id"] == 0
    state = env.environment.state
    assert (state.last_reward, state.last_info) == (0.0, info)
    saved, rendered = env.environment.save_state(), env.render()
    told = env.step("[anything]")
    assert told[1:4] == (1.0, True, False) and told[0] in env.observation_space
    assert told[4]["rewards"] == {"0": -1.0, "1": 1.0} and told[4]["reason"]
    assert env.environment.state.last_reward == 1.0
    after = env.environment.save_state()
    with pytest.raises(ResetNeededError, match="over"):
        env.step("[anything]")
    env.environment.restore_state(json.loads(json.dumps(saved)))
    assert env.render() == rendered
    assert data_equivalence(env.step("[anything]"), told, exact=True)
    env.reset(seed=1)
    env.environment.restore_state(json.loads(json.dumps(after)))
    assert env.environment.state.last_reward == 1.0
    with pytest.raises(ResetNeededError, match="over"):
        env.step("[anything]")
    with pytest.raises(InvalidOptionError, match="after the end"):
        env.environment.restore_state({**after, "said": [*after["said"], "[more]"]})


def test_a_typed_client_is_told_of_such_an_end_by_a_step():
    options = {"env_id": ENDED[0], "player_id": 1}
    handle = TextArenaEnv.from_env("textarena_env", provider="thread", options=options)
    with handle.sync() as client:
        first = client.reset(seed=1)
        assert (first.done, first.reward or 0.0) == (False, 0.0)
        assert client.call_tool("say", message="[anything]") == ""
        client.reset(seed=1)
        result = client.step(TextArenaAction(message="[anything]"))
        assert (result.reward, result.done) == (1.0, True)


def test_a_cut_before_the_agents_first_move_comes_with_that(monkeypatch):
    env = make(TICTACTOE, player_id=1)
    # Nothing is taken, and nothing ends the game.
    monkeypatch.setattr(type(env.environment._match.game), "say", lambda self, message: False)
    env.reset(seed=0)
    assert env.step("[4]")[1:4] == (0.0, False, True)
    with pytest.raises(ResetNeededError):
        env.step("[4]")


def test_a_reward_that_is_no_number_is_a_lost_game():
    env = make("Countdown-v0")
    env.reset(seed=0)
    env.step("[nonsense]")
    assert env.step("[nonsense]")[1:3] == (-1.0, True)


def test_a_limit_of_turns_truncates():
    env = make(max_turns=2)
    env.reset(seed=0)
    assert env.step("[1]")[2:4] == (False, False)
    _, reward, terminated, truncated, info = env.step("[2]")
    assert (reward, terminated, truncated, info["reason"]) == (0.0, False, True, "")
    with pytest.raises(ResetNeededError):
        env.step("[3]")
