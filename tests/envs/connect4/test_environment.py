"""Connect Four for one agent."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import openenv_gym  # noqa: F401  # registers the ids
from connect4_env import Connect4Action
from connect4_env.models import Connect4State
from connect4_env.server.connect4_environment import Connect4Environment
from openenv_gym.errors import InvalidActionError, InvalidOptionError, ResetNeededError
from openenv_gym.rubrics import Rubric

from .games import DRAW, SECOND_WINS, WINS, make, random_game


class CountsDiscs(Rubric):
    """A reward of one's own: how many discs there are."""

    def forward(self, action: Any, observation: Any) -> float:
        return float(np.count_nonzero(observation.board)) + (observation.reward or 0.0)


OPPONENTS: list[dict[str, Any]] = [
    {"opponent": "self"},
    {"opponent": "random", "side": "random"},
    {"opponent": "minimax", "depth": 2, "side": "second"},
]


@pytest.mark.parametrize("options", OPPONENTS, ids=str)
def test_check_env(options: dict[str, Any]) -> None:
    env = gymnasium.make("openenv/ConnectFour-v0", provider="thread", **options)
    check_env(env.unwrapped)
    env.close()


@pytest.mark.parametrize("options", OPPONENTS, ids=str)
def test_equal_seeds_give_equal_games(options: dict[str, Any]) -> None:
    env = make(**options)
    assert random_game(env, 5, games=3) == random_game(make(**options), 5, games=3)
    assert random_game(env, 5, games=3) == random_game(env, 5, games=3)
    assert random_game(env, 5) != random_game(env, 6)


@pytest.mark.parametrize("options", OPPONENTS, ids=str)
def test_observations_lie_in_their_space(options: dict[str, Any]) -> None:
    env = make(**options)
    env.action_space.seed(0)
    for seed in range(20):
        observation, info = env.reset(seed=seed)
        over = False
        while not over:
            assert observation in env.observation_space
            assert info["action_mask"].dtype == np.int8
            assert np.array_equal(info["action_mask"], observation["legal_actions"])
            legal = [action.column for action in env.environment.legal_actions()]
            assert legal == np.flatnonzero(info["action_mask"]).tolist() and legal
            action = env.action_space.sample(info["action_mask"])
            observation, reward, over, truncated, info = env.step(action)
            assert reward in (-1.0, 0.0, 1.0) and not truncated and not info["illegal"]
        assert observation in env.observation_space
        assert not info["action_mask"].any() and env.environment.legal_actions() == []


@pytest.mark.parametrize("how", WINS)
def test_who_plays_both_sides_is_paid_as_whoever_moved(how: str) -> None:
    env = make(opponent="self")
    env.reset()
    results = [env.step(column) for column in WINS[how]]
    assert [each[1] for each in results] == [0.0] * (len(results) - 1) + [1.0]
    assert [each[2] for each in results] == [False] * (len(results) - 1) + [True]
    assert results[-1][4]["winner"] == 1
    env.reset()
    results = [env.step(column) for column in SECOND_WINS]
    assert results[-1][1] == 1.0 and results[-1][4]["winner"] == -1
    env.reset()
    results = [env.step(column) for column in DRAW]
    assert results[-1][1:3] == (0.0, True) and results[-1][4]["winner"] == 0


def test_minimax_beats_chance() -> None:
    env = make(opponent="minimax", depth=4)
    results = [random_game(env, seed)[-1][2] for seed in range(10)]
    assert results.count(-1.0) >= 9


def test_sides() -> None:
    first, second, drawn = (make(side=side) for side in ("first", "second", "random"))
    assert np.count_nonzero(first.reset(seed=1)[0]["board"]) == 0
    board = second.reset(seed=1)[0]["board"]
    assert np.count_nonzero(board) == 1 and board.sum() == 1
    assert second.reset(seed=1)[1]["next_player"] == -1
    seen = {int(drawn.reset(seed=seed)[0]["board"].sum()) for seed in range(20)}
    assert seen == {0, 1}
    # A win is the agent's, whichever side it plays.
    environment = second.environment
    environment.restore_state({**environment.save_state(), "moves": SECOND_WINS[:-1]})
    *_, info = second.step(SECOND_WINS[-1])
    assert info["winner"] == -1
    assert second.environment.state.step_count == 1


@pytest.mark.parametrize(
    ("policy", "reward", "over"), [("loss", -1.0, True), ("penalty", -0.1, False)]
)
def test_an_illegal_move(policy: str, reward: float, over: bool) -> None:
    env = make(opponent="self", illegal_move=policy)
    env.reset()
    for _ in range(6):
        before = env.step(3)[0]
    observation, got, terminated, truncated, info = env.step(3)
    assert (got, terminated, truncated, info["illegal"]) == (reward, over, False, True)
    assert np.array_equal(observation["board"], before["board"])
    assert observation["legal_actions"].any() == (not over)
    if over:
        with pytest.raises(ResetNeededError):
            env.step(0)
    else:
        assert env.step(0)[4]["illegal"] is False


def test_an_illegal_move_that_is_refused() -> None:
    env = make(opponent="self", illegal_move="refuse")
    env.reset()
    for _ in range(6):
        env.step(3)
    with pytest.raises(InvalidActionError, match="full") as caught:
        env.step(3)
    assert caught.value.field == "column"
    assert env.environment.state.step_count == 6
    env.step(2)


@pytest.mark.parametrize("action", [7, -1, 1.5, "3", None, [1]])
def test_a_column_that_does_not_exist(action: Any) -> None:
    env = make(illegal_move="penalty")
    env.reset(seed=0)
    with pytest.raises(InvalidActionError):
        env.step(action)
    env.step(3)


def test_steps_before_and_after_a_game() -> None:
    env = make(opponent="self")
    with pytest.raises(ResetNeededError):
        env.step(1)
    env.reset()
    for column in WINS["row"]:
        env.step(column)
    for _ in range(2):
        with pytest.raises(ResetNeededError):
            env.step(1)
    env.reset()
    env.step(1)


def test_state() -> None:
    environment = Connect4Environment(opponent="self")
    environment.reset()
    environment.step(Connect4Action(column=3))
    state = environment.state
    assert isinstance(state, Connect4State)
    assert state.board[5] == [0, 0, 0, 1, 0, 0, 0]
    assert (state.next_player, state.step_count) == (-1, 1)


@pytest.mark.parametrize("options", OPPONENTS, ids=str)
def test_save_and_restore(options: dict[str, Any]) -> None:
    env = gymnasium.make("openenv/ConnectFour-v0", provider="thread", **options).unwrapped
    env.reset(seed=8)
    for column in (3, 3):
        env.step(column)
    saved = env.openenv.save_state()
    actions = [0, 0, 6]
    first = [env.step(action)[:3] for action in actions]
    env.openenv.restore_state(saved)
    again = [env.step(action)[:3] for action in actions]
    for a, b in zip(first, again, strict=True):
        assert np.array_equal(a[0]["board"], b[0]["board"]) and a[1:] == b[1:]
    other = gymnasium.make("openenv/ConnectFour-v0", provider="thread", **options).unwrapped
    other.openenv.restore_state(saved)
    for action, expected in zip(actions, first, strict=True):
        assert np.array_equal(other.step(action)[0]["board"], expected[0]["board"])
    env.close()
    other.close()


def test_pictures() -> None:
    text = make(opponent="self", render_mode="ansi")
    text.reset()
    text.step(0)
    text.step(6)
    assert text.render().splitlines()[-2:] == ["X . . . . . O", "0 1 2 3 4 5 6"]
    env = make(opponent="self", render_mode="rgb_array")
    env.reset()
    env.step(0)
    env.step(6)
    picture = env.render()
    assert (picture.shape, picture.dtype) == ((192, 224, 3), np.uint8)
    red, yellow, empty = picture[176, 16], picture[176, 208], picture[16, 16]
    assert red[0] > 150 > red[1] and min(yellow[:2]) > 150 > yellow[2] and min(empty) > 200
    assert make().render() is None


@pytest.mark.parametrize("how", ["object", "text"])
def test_a_rubric_takes_the_place_of_the_reward(how: str) -> None:
    rubric = CountsDiscs() if how == "object" else f"{__name__}:CountsDiscs"
    from tests.support.serving import serving

    with serving(lambda: Connect4Environment(opponent="self", rubric=rubric)) as url:
        env = gymnasium.make("openenv/Remote-v0", base_url=url)
        env.reset()
        rewards = [env.step(column)[1] for column in WINS["row"]]
        assert rewards == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0]
        env.close()


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"opponent": "deep blue"}, "opponent"),
        ({"opponent": None}, "opponent"),
        ({"opponent": ["random"]}, "opponent"),
        ({"depth": 0}, "depth"),
        ({"depth": 9}, "depth"),
        ({"depth": 2.0}, "depth"),
        ({"depth": True}, "depth"),
        ({"side": "third"}, "side"),
        ({"illegal_move": "cheer"}, "illegal_move"),
        ({"render_mode": "human"}, "render_mode"),
        ({"colour": "red"}, "colour"),
    ],
    ids=str,
)
def test_wrong_options(options: dict[str, Any], field: str) -> None:
    from connect4_env.server.app import app

    with pytest.raises(InvalidOptionError, match=field) as caught:
        app.open(options)
    assert caught.value.field == field


def test_there_are_no_reset_options() -> None:
    with pytest.raises(InvalidOptionError, match="first_move"):
        make().reset(options={"first_move": 3})


def test_a_vector() -> None:
    envs = gymnasium.make_vec(
        "openenv/ConnectFour-v0", num_envs=3, provider="thread", num_servers=1
    )
    observations, _infos = envs.reset(seed=5)
    alone = make()
    for _ in range(3):
        observations, _rewards, *_ = envs.step(np.array([3, 3, 3]))
    alone.reset(seed=6)
    for _ in range(3):
        expected, *_ = alone.step(3)
    assert np.array_equal(observations["board"][1], expected["board"])
    envs.close()
