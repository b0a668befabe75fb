"""Games from the first move to the last: rewards, ends, colours, draws, illegal moves."""

from __future__ import annotations

from typing import Any

import chess
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env, env_render_passive_checker

from chess_env import ChessAction
from chess_env.server.chess_environment import ChessEnvironment
from openenv_gym.errors import InvalidActionError, ResetNeededError

from .play import make, play, same


KINDS: list[dict[str, Any]] = [
    {},
    {"action": "discrete"},
    {"observation": "planes"},
    {"action": "discrete", "observation": "planes", "agent_color": "random"},
    {"opponent": "self", "action": "discrete"},
    {"chess960": "random", "agent_color": "black"},
    {"fen": "8/5k2/8/8/8/8/1P3K2/8 w - - 0 1", "max_moves": None},
]


@pytest.mark.parametrize("options", KINDS, ids=str)
def test_check_env(options: dict[str, Any]) -> None:
    check_env(make(**options), skip_render_check=True)


@pytest.mark.parametrize("options", KINDS[:-1], ids=str)
def test_equal_seeds_give_equal_games(options: dict[str, Any]) -> None:
    first, again, other = (play(make(**options), 150, seed) for seed in (7, 7, 8))
    assert same(first, again)
    assert not same(first, other)


@pytest.mark.parametrize("options", KINDS, ids=str)
def test_observations_lie_in_their_space_until_the_end(options: dict[str, Any]) -> None:
    env = make(**options)
    ended = 0
    for step in play(env, 400, 5):
        assert step[0] in env.observation_space
        if len(step) == 5:
            assert type(step[1]) is float
            ended += step[2] or step[3]
    assert ended


def test_without_a_seed_the_generator_goes_on() -> None:
    env = make(agent_color="black")
    env.reset(seed=3)
    openings = {env.reset()[1]["opponent_move"] for _ in range(20)}
    assert len(openings) > 3


def test_spaces_are_those_of_the_readme() -> None:
    env = make()
    assert (env.action_space.min_length, env.action_space.max_length) == (0, 64)
    assert list(env.observation_space) == ["fen", "legal_moves", "is_check", "result"]
    assert env.observation_space["result"].n == 4
    assert make(action="discrete").action_space.n == 4672


def test_a_game_by_hand() -> None:
    env = make(opponent="self")
    observation, info = env.reset(seed=0)
    assert observation["fen"] == chess.STARTING_FEN
    assert len(observation["legal_moves"]) == 20
    assert info == {
        "move": None,
        "opponent_move": None,
        "illegal_move": False,
        "termination": None,
        "fullmove_number": 1,
        "halfmove_clock": 0,
    }
    for move in ("f2f3", "e7e5", "g2g4"):
        observation, *rest, info = env.step(move)
        assert rest == [0.0, False, False]
        assert (info["move"], info["opponent_move"]) == (move, None)
    # Of both sides, the reward is that of who has just moved.
    observation, *rest, info = env.step("d8h4")
    assert rest == [1.0, True, False]
    assert info["termination"] == "checkmate"
    assert observation["result"] == 1  # "1-0", "0-1", "1/2-1/2", None
    assert (observation["is_check"], observation["legal_moves"]) == (1, ())
    state = env.environment.state
    assert (state.result, state.termination, state.current_player) == ("0-1", "checkmate", "white")
    assert state.move_history == ["f2f3", "e7e5", "g2g4", "d8h4"]
    assert (state.step_count, state.agent_color, state.opponent) == (4, None, "self")
    with pytest.raises(ResetNeededError, match="over"):
        env.step("a2a3")
    assert env.reset()[0]["fen"] == chess.STARTING_FEN


@pytest.mark.parametrize(
    ("fen", "color", "move", "reward", "termination"),
    [
        ("7k/5K2/8/8/8/8/8/6Q1 w - - 0 1", "white", "g1g7", 1.0, "checkmate"),
        ("k7/8/1K6/8/8/8/8/7r b - - 0 1", "black", "h1b1", 0.0, None),
        ("7k/8/6K1/8/8/8/8/5Q2 w - - 0 1", "white", "f1f7", 0.0, "stalemate"),
        ("8/8/8/8/8/4k3/4p3/4K2N w - - 0 1", "white", "h1g3", 0.0, None),
        ("7k/8/8/8/8/8/8/KR6 w - - 99 80", "white", "b1b2", 0.0, "fifty_moves"),
        ("k7/8/8/8/8/8/1p6/K7 w - - 0 1", "white", "a1b2", 0.0, "insufficient_material"),
    ],
)
def test_ends(fen: str, color: str, move: str, reward: float, termination: str | None) -> None:
    env = make(fen=fen, agent_color=color)
    env.reset(seed=1)
    _, got, terminated, truncated, info = env.step(move)
    assert (got, terminated, truncated) == (reward, termination is not None, False)
    assert info["termination"] == termination


def test_losing_costs_one() -> None:
    fen = "rnbqkbnr/pppp1ppp/8/4p3/8/5P2/PPPPP1PP/RNBQKBNR w KQkq - 0 2"
    environment = ChessEnvironment(fen=fen)
    for seed in range(200):
        environment.reset(seed=seed)
        observation = environment.step(ChessAction(move="g2g4"))
        if observation.done:
            break
    assert observation.metadata["opponent_move"] == "d8h4"
    assert (observation.reward, observation.result) == (-1.0, "0-1")


def test_a_game_that_the_opponents_first_move_ends() -> None:
    # Black's only move takes the last piece.
    env = make(fen="k7/1Q6/8/8/8/8/8/7K b - - 0 1", action="discrete", agent_color="white")
    observation, info = env.reset(seed=0)
    assert info["termination"] == "insufficient_material"
    assert not info["action_mask"].any() and observation["legal_moves"] == ()
    _, reward, terminated, truncated, info = env.step(0)
    assert (reward, terminated, truncated) == (0.0, True, False)
    assert (info["move"], info["illegal_move"]) == (None, False)
    with pytest.raises(ResetNeededError):
        env.step(0)


SHUFFLE = ("g1f3", "g8f6", "f3g1", "f6g8")


@pytest.mark.parametrize(
    ("claim_draws", "moves", "termination"),
    [(True, 8, "threefold_repetition"), (False, 16, "fivefold_repetition")],
)
def test_repetition(claim_draws: bool, moves: int, termination: str) -> None:
    env = make(opponent="self", claim_draws=claim_draws)
    env.reset()
    for move in (SHUFFLE * 4)[: moves - 1]:
        assert env.step(move)[2:4] == (False, False)
    observation, reward, terminated, _, info = env.step((SHUFFLE * 4)[moves - 1])
    assert (reward, terminated, info["termination"]) == (0.0, True, termination)
    assert observation["result"] == 2


@pytest.mark.parametrize(
    ("claim_draws", "clock", "termination"),
    [(True, 98, "fifty_moves"), (False, 148, "seventyfive_moves")],
)
def test_moves_without_progress(claim_draws: bool, clock: int, termination: str) -> None:
    fen = f"7k/8/8/8/8/8/8/KR6 w - - {clock} 120"
    env = make(opponent="self", claim_draws=claim_draws, fen=fen)
    env.reset()
    assert not env.step("b1b2")[2]
    assert env.step("h8g8")[4]["termination"] == termination


def test_where_no_draw_is_claimed_the_game_goes_on() -> None:
    env = make(opponent="self", claim_draws=False, fen="7k/8/8/8/8/8/8/KR6 w - - 100 120")
    observation, _ = env.reset()
    assert observation["legal_moves"]
    assert env.step("b1b2")[2] is False


def test_mate_comes_before_a_draw() -> None:
    env = make(fen="7k/8/6K1/8/8/8/8/R7 w - - 99 80", opponent="self")
    env.reset()
    _, reward, terminated, _, info = env.step("a1a8")
    assert (reward, terminated, info["termination"]) == (1.0, True, "checkmate")


@pytest.mark.parametrize(
    "move", ["e2e5", "e7e5", "Nf3", "e4", "0000", "", "e2e4q", "a9b9", "P@e4", "e2 e4", "x" * 64]
)
def test_an_illegal_move_costs_a_little_and_the_game_goes_on(move: str) -> None:
    env = make()
    before, _ = env.reset(seed=1)
    observation, reward, terminated, truncated, info = env.step(move)
    assert (reward, terminated, truncated) == (-0.1, False, False)
    assert same(observation, before)
    assert info["illegal_move"] and info["move"] is None and info["opponent_move"] is None
    assert env.step("e2e4")[1] == 0.0


@pytest.mark.parametrize(("opponent", "result"), [("random", "0-1"), ("self", "0-1")])
def test_an_illegal_move_may_lose_the_game(opponent: str, result: str) -> None:
    environment = ChessEnvironment(illegal_move="loss", opponent=opponent)
    environment.reset(seed=1)
    observation = environment.step(ChessAction(move="e2e5"))
    assert (observation.reward, observation.done, observation.truncated) == (-1.0, True, False)
    assert (observation.result, observation.metadata["termination"]) == (result, "illegal_move")
    assert observation.legal_moves == []


def test_what_is_no_action_is_refused() -> None:
    for options, actions in (
        ({}, [12, None, "x" * 65, b"e2e4"]),
        ({"action": "discrete"}, [-1, 4672, "e2e4", 1.5, None]),
    ):
        env = make(**options)
        env.reset()
        for action in actions:
            with pytest.raises(InvalidActionError):
                env.step(action)
        assert env.environment.state.step_count == 0


@pytest.mark.parametrize("most", [1, 4, 5])
def test_a_game_is_cut_off_after_so_many_moves(most: int) -> None:
    env = make(max_moves=most)
    observation, _ = env.reset(seed=2)
    steps, ended = 0, [False, False]
    while not any(ended):
        observation, reward, *ended, info = env.step(observation["legal_moves"][0])
        steps += 1
    assert (reward, ended, info["termination"]) == (0.0, [False, True], "max_moves")
    assert len(env.environment.state.move_history) == most
    assert steps == (most + 1) // 2
    assert observation["result"] == 3
    assert observation["legal_moves"]


def test_illegal_moves_count_towards_the_cut() -> None:
    env = make(max_moves=3)
    env.reset()
    assert [env.step("")[1:4] for _ in range(3)] == [
        (-0.1, False, False),
        (-0.1, False, False),
        (-0.1, False, True),
    ]


def test_colors() -> None:
    assert make(agent_color="black").reset(seed=0)[1]["opponent_move"] is not None
    assert make(agent_color="white").reset(seed=0)[1]["opponent_move"] is None
    env = make(agent_color="random")
    colors = []
    for number in range(30):
        env.reset(seed=None if number else 0)
        colors.append(env.environment.state.agent_color)
    assert set(colors) == {"white", "black"}
    # With Black to move, White waits.
    fen = "4k3/4p3/8/8/8/8/4P3/4K3 b - - 0 1"
    assert make(fen=fen, agent_color="white").reset()[1]["opponent_move"] is not None
    assert make(fen=fen, agent_color="black").reset()[1]["opponent_move"] is None


def test_chess960() -> None:
    assert make(chess960=518).reset()[0]["fen"] == chess.STARTING_FEN
    env = make(chess960="random", opponent="self")
    boards = {env.reset(seed=seed)[0]["fen"] for seed in range(10)}
    assert len(boards) > 5
    assert boards <= {chess.Board.from_chess960_pos(number).fen() for number in range(960)}
    # King f1, rook g1, and nothing in between: castling is the king's move onto its rook.
    env = make(fen="4k3/8/8/8/8/8/8/5KR1 w G - 0 1", opponent="self")
    observation, _ = env.reset()
    assert "f1g1" in observation["legal_moves"]
    assert env.step("f1g1")[0]["fen"].startswith("4k3/8/8/8/8/8/8/5RK1 b")
    assert env.environment.state.chess960


def test_a_reset_may_begin_elsewhere() -> None:
    environment = ChessEnvironment(chess960=5)
    fen = "4k3/8/8/8/8/8/4P3/4K3 w - - 0 1"
    assert environment.reset(fen=fen).fen == fen  # as OpenEnv's clients have it
    assert environment.reset(options={"fen": fen}).fen == fen  # as Gymnasium's have it
    assert environment.reset().fen == chess.Board.from_chess960_pos(5).fen()
    assert environment.reset(options={"chess960": 518}).fen == chess.STARTING_FEN
    environment.reset(options={"agent_color": "black"})
    assert environment.state.agent_color == "black"
    environment.reset()
    assert environment.state.agent_color == "white"


def test_legal_actions() -> None:
    environment = ChessEnvironment()
    with pytest.raises(ResetNeededError):
        environment.legal_actions()
    observation = environment.reset()
    assert environment.legal_actions() == [{"move": move} for move in observation.legal_moves]
    environment = ChessEnvironment(action="discrete")
    observation = environment.reset()
    numbers = [action["action_id"] for action in environment.legal_actions()]
    assert sorted(numbers) == np.flatnonzero(observation.metadata["action_mask"]).tolist()


def test_before_the_first_reset() -> None:
    environment = ChessEnvironment(render_mode="ansi")
    assert environment.state.fen == ""
    for ask in (lambda: environment.step(ChessAction(move="e2e4")), environment.render):
        with pytest.raises(ResetNeededError, match="no game"):
            ask()


def test_rendering() -> None:
    env = make(render_mode="ansi")
    env.reset(seed=0)
    assert "1  R N B Q K B N R" in env.render()
    env_render_passive_checker(env)
    white, black = (
        make(render_mode="rgb_array", agent_color=color) for color in ("white", "black")
    )
    pictures = []
    for env in (white, black):
        env.reset(seed=0, options={"fen": "4k3/8/8/8/8/8/4P3/4K3 w - - 0 1"})
        pictures.append(env.render())
        assert (pictures[-1].shape, pictures[-1].dtype) == ((384, 384, 3), np.uint8)
        env_render_passive_checker(env)
    corner = [picture[0, 0].tolist() for picture in pictures]
    assert corner == [[240, 217, 181]] * 2  # a8 and h1 are light
    assert make().render() is None
    env = white
    env.reset()
    before = env.render()
    env.step("e2e4")
    changed = np.abs(env.render().astype(int) - before).sum(axis=2).reshape(8, 48, 8, 48)
    squares = {(int(row), int(column)) for row, column in np.argwhere(changed.any(axis=(1, 3)))}
    assert {(6, 4), (4, 4)} <= squares  # the move; the reply changes others
