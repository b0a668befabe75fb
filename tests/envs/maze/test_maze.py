"""The maze: carving, moves, rewards, ends, options, saved states."""

from __future__ import annotations

import json

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence

import openenv_gym  # noqa: F401  # registers the ids
from maze_env import MazeAction, MazeEnv
from maze_env.server.maze import carve_maze, read_maze
from maze_env.server.maze_environment import MazeEnvironment
from openenv_gym.errors import InvalidActionError, InvalidOptionError, ResetNeededError
from openenv_gym.server.adapter import TypedEnv


UP, DOWN, LEFT, RIGHT = range(4)
SMALL = """
S.#
#..
..E
"""


def make(**options) -> TypedEnv:
    return TypedEnv(MazeEnvironment(**options))


def play(env: gymnasium.Env, steps: int, seed: int = 3) -> list:
    """Return everything that random moves bring, the resets between them included."""
    rng = np.random.default_rng(seed)
    seen = [env.reset(seed=seed)]
    for action in rng.integers(4, size=steps):
        seen.append(env.step(action))
        assert seen[-1][0] in env.observation_space
        if seen[-1][2] or seen[-1][3]:
            seen.append(env.reset())
    return seen


def test_a_way_out_and_what_each_move_earns():
    env = make(maze=SMALL)
    observation, info = env.reset(seed=0)
    assert observation["current_position"].tolist() == [0, 0]
    assert observation["legal_actions"].tolist() == [RIGHT]
    assert info["action_mask"].tolist() == [0, 0, 0, 1]
    assert info["maze"].tolist() == [[0, 0, 1], [1, 0, 0], [0, 0, 0]]
    assert (info["status"], info["exit_cell"]) == ("playing", [2, 2])
    wanted = [(UP, -0.75), (RIGHT, -0.05), (LEFT, -0.25), (RIGHT, -0.25), (DOWN, -0.05)]
    for action, reward in wanted:
        observation, found, terminated, truncated, _ = env.step(action)
        assert (found, terminated, truncated) == (reward, False, False)
    assert observation["current_position"].tolist() == [1, 1]  # column, row
    assert observation["previous_position"].tolist() == [1, 0]
    env.step(DOWN)
    observation, found, terminated, truncated, info = env.step(RIGHT)
    assert (found, terminated, truncated) == (10.0, True, False)
    assert (info["status"], info["action_mask"].tolist()) == ("win", [0] * 4)
    assert observation["legal_actions"].tolist() == []
    assert observation in env.observation_space
    state = env.environment.state
    assert (state.status, state.done, state.exit_cell) == ("win", True, [2, 2])
    with pytest.raises(ResetNeededError, match="over"):
        env.step(LEFT)


def test_who_has_lost_too_much_has_lost():
    env = make(maze=SMALL)
    env.reset()
    ends = [env.step(UP)[2:4] for _ in range(7)]  # 7 * 0.75 > 9 / 2
    assert ends == [(False, False)] * 6 + [(True, False)]
    assert env.environment.state.status == "lose"


def test_a_limit_of_steps_truncates():
    env = make(maze=SMALL, max_steps=2)
    env.reset()
    assert [env.step(UP)[2:4] for _ in range(2)] == [(False, False), (False, True)]
    assert env.environment.state.status == "playing"
    with pytest.raises(ResetNeededError):
        env.step(UP)


def test_rewards_and_the_least_score_can_be_chosen():
    env = make(maze=SMALL, reward_dict={"exit": 1, "wall": -1.0}, min_score=-1.5)
    env.reset()
    assert env.step(UP)[1:3] == (-1.0, False)
    assert env.step(UP)[1:3] == (-1.0, True)


@pytest.mark.parametrize("size", [3, 9, 31])
def test_carved_mazes_have_one_way_between_any_two_cells(size):
    maze = carve_maze(size, np.random.default_rng(size))
    assert read_maze(maze.lines).lines == maze.lines  # the exit can be reached
    free = [(x, y) for x in range(size) for y in range(size) if maze.is_free((x, y))]
    edges = sum(maze.is_free(cell) for each in free for cell in maze.around(each)) // 2
    assert edges == len(free) - 1  # a tree
    assert len({tuple(carve_maze(size, np.random.default_rng(i)).lines) for i in range(9)}) > 1


def test_equal_seeds_equal_mazes_and_trajectories():
    one, two = (play(make(), 400) for _ in range(2))
    assert data_equivalence(one, two, exact=True)
    assert len({each[1]["maze"].tobytes() for each in one if len(each) == 2}) > 1


def test_the_generator_of_the_process_is_left_alone():
    before = np.random.get_state()[1].tolist()
    play(make(), 50)
    assert np.random.get_state()[1].tolist() == before


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"size": 1}, "size"),
        ({"size": 8}, "size"),
        ({"size": 65}, "size"),
        ({"size": "9"}, "size"),
        ({"maze": 3}, "maze"),
        ({"maze": ["S.", 3]}, "maze"),
        ({"maze": ""}, "maze"),
        ({"maze": "S"}, "maze"),
        ({"maze": "S.\n..E"}, "maze"),
        ({"maze": "Sx\n.E"}, "maze"),
        ({"maze": "SS\n.E"}, "maze"),
        ({"maze": "#.\n.E"}, "maze"),
        ({"maze": "S#\n#E"}, "maze"),
        ({"reward_dict": {"fruit": 1.0}}, "reward_dict"),
        ({"reward_dict": {"exit": "much"}}, "reward_dict"),
        ({"min_score": float("nan")}, "min_score"),
        ({"max_steps": 0}, "max_steps"),
        ({"render_mode": "human"}, "render_mode"),
    ],
    ids=str,
)
def test_wrong_options(options, field):
    with pytest.raises(InvalidOptionError, match=field) as caught:
        MazeEnvironment(**options)
    assert caught.value.field == field


@pytest.mark.parametrize("action", [4, -1, 1.5, "UP", None])
def test_wrong_actions(action):
    env = make(maze=SMALL)
    env.reset()
    with pytest.raises(InvalidActionError):
        env.step(action)
    assert env.step(RIGHT)[0]["current_position"].tolist() == [1, 0]


def test_rendering():
    env = make(maze=SMALL, render_mode="ansi")
    env.reset()
    env.step(RIGHT)
    assert env.render() == "SA#\n#..\n..E"
    env = make(render_mode="rgb_array")
    env.reset()
    picture = env.render()
    assert (picture.shape, picture.dtype) == ((144, 144, 3), np.uint8)
    assert make().render() is None


def test_a_saved_state_brings_back_everything():
    env, other = (make(render_mode="ansi") for _ in range(2))
    play(env, 12)
    saved = json.loads(json.dumps(env.environment.save_state()))
    seen, state = env.render(), env.environment.state
    actions = [UP, DOWN, LEFT, RIGHT] * 3
    expected = [env.step(action) for action in actions] + [env.reset()]
    other.reset(seed=9)
    for each in (env, other):
        each.environment.restore_state(saved)
        assert (each.render(), each.environment.state) == (seen, state)
        found = [each.step(action) for action in actions] + [each.reset()]
        assert data_equivalence(found, expected, exact=True)


def test_what_is_no_saved_state_is_refused():
    environment = MazeEnvironment()
    environment.reset(seed=0)
    saved = environment.save_state()
    for wrong in (
        None,
        {},
        MazeEnvironment(size=11).save_state(),
        {**saved, "maze": ["S.", ".E"]},
        {**saved, "maze": ["#########"] * 9},
        {**saved, "maze": 3},
        {**saved, "way": []},
        {**saved, "way": [[0, 0], [0]]},
        {**saved, "way": [[0, 0], [0, 0], [99, 0]]},
        {**saved, "way": [[1, 1], [0, 0]]},
        {**saved, "way": [[0.0, 0], [0, 0]]},
        {**saved, "score": float("nan")},
        {**saved, "np_random": {}},
    ):
        with pytest.raises(InvalidOptionError, match="not a saved state") as caught:
            environment.restore_state(wrong)
        assert caught.value.field == "saved"
    assert environment.save_state() == saved


def test_the_typed_client():
    with MazeEnv.from_env("maze_env", provider="thread").sync() as client:
        observation = client.reset(seed=1).observation
        assert observation.current_position == [0, 0]
        legal = client.describe_actions()["legal"]
        assert legal == [{"action": action} for action in observation.legal_actions]
        result = client.step(MazeAction(action=observation.legal_actions[0]))
        assert (result.reward, result.done) == (-0.05, False)
        assert client.state().current_position == result.observation.current_position
