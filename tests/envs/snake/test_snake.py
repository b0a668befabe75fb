"""The snake: moves, fruits, ends, what it sees, options, saved states."""

from __future__ import annotations

import json

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env, data_equivalence

import openenv_gym  # noqa: F401  # registers the ids
from openenv_gym.errors import InvalidActionError, InvalidOptionError, ResetNeededError
from openenv_gym.server.adapter import TypedEnv
from snake_env import SnakeAction, SnakeEnv
from snake_env.server.snake import Event, Snake
from snake_env.server.snake_environment import SnakeEnvironment


STRAIGHT, LEFT, RIGHT, DOWN, UP = range(5)
NORTH, EAST, SOUTH, WEST = range(4)


def make(**options) -> TypedEnv:
    return TypedEnv(SnakeEnvironment(**options))


def play(env: gymnasium.Env, steps: int, seed: int = 3) -> list:
    """Return everything that random moves bring, the resets between them included."""
    rng = np.random.default_rng(seed)
    seen = [env.reset(seed=seed)]
    for action in rng.integers(env.action_space.n, size=steps):
        seen.append(env.step(action))
        assert seen[-1][0] in env.observation_space
        if seen[-1][2] or seen[-1][3]:
            seen.append(env.reset())
    return seen


def placed(env: TypedEnv, body: list, direction: int, fruit: tuple) -> TypedEnv:
    """Return an environment in which a snake lies just so."""
    saved = env.environment.save_state()
    body = [list(cell) for cell in body]
    env.environment.restore_state(
        {**saved, "body": body, "direction": direction, "fruit": list(fruit)}
    )
    return env


@pytest.mark.parametrize("options", [{}, {"vision_range": 2, "observer": "human", "height": 9}])
def test_check_env(options):
    check_env(make(**options), skip_render_check=True)


def test_it_grows_with_each_fruit():
    env = make(height=6, width=6, render_mode="ansi")
    env.reset(seed=0)
    placed(env, [(3, 2), (3, 1)], EAST, (3, 3))
    assert env.render() == "######\n#....#\n#....#\n#tHo.#\n#....#\n######"
    observation, reward, terminated, truncated, _ = env.step(STRAIGHT)
    assert (reward, terminated, truncated) == (1.001, False, False)
    assert (int(observation["episode_fruits"]), float(observation["episode_score"])) == (1, 1.001)
    assert env.render().splitlines()[3].startswith("#tbH")
    assert env.render().count("o") == 1
    assert env.step(STRAIGHT)[1] == 0.001
    assert sum(env.render().count(mark) for mark in "tbH") == 3


@pytest.mark.parametrize(
    ("observer", "actions", "ends"),
    [
        ("snake", [LEFT, LEFT], (1, 1)),
        ("snake", [RIGHT, STRAIGHT], (4, 2)),
        ("human", [UP, LEFT], (1, 1)),
        ("human", [DOWN, RIGHT], (3, 3)),
        ("human", [LEFT, STRAIGHT], (2, 4)),  # it cannot turn back, and goes on
    ],
)
def test_directions(observer, actions, ends):
    env = make(height=6, width=6, observer=observer)
    env.reset(seed=0)
    placed(env, [(2, 2), (2, 1)], EAST, (4, 4))
    for action in actions:
        observation, *_ = env.step(action)
    assert np.argwhere(observation["grid"] == 5).tolist() == [list(ends)]


def test_what_is_legal():
    env = make(observer="human")
    env.reset(seed=0)
    placed(env, [(2, 2), (2, 1)], EAST, (4, 4))
    assert env.step(STRAIGHT)[4]["action_mask"].tolist() == [1, 0, 1, 1, 1]
    assert [each.action for each in env.environment.legal_actions()] == [0, 2, 3, 4]
    assert make().reset()[1]["action_mask"].tolist() == [1, 1, 1]


def test_walls_and_itself_kill_it():
    env = make(height=6, width=6)
    env.reset(seed=0)
    placed(env, [(1, 4), (1, 3)], EAST, (4, 4))
    observation, reward, terminated, truncated, _ = env.step(STRAIGHT)
    assert (reward, terminated, truncated, observation["alive"]) == (-1.0, True, False, 0)
    assert observation in env.observation_space
    with pytest.raises(ResetNeededError, match="over"):
        env.step(STRAIGHT)
    body = [(2, 2), (2, 3), (3, 3), (3, 2), (3, 1)]
    env.reset()
    placed(env, body, WEST, (4, 4))
    assert env.step(LEFT)[1:3] == (-1.0, True)


def test_it_may_go_where_its_tail_was():
    snake = Snake((6, 6), [(2, 2), (2, 3), (3, 3), (3, 2)], WEST)
    assert snake.move(SOUTH, np.random.default_rng(0)) == Event.MOVED
    assert snake.body[0] == (3, 2)


def test_a_world_without_room_is_won():
    env = make(height=4, width=4, snake_length=2)
    env.reset(seed=0)
    placed(env, [(1, 2), (2, 2), (2, 1)], NORTH, (1, 1))
    observation, reward, terminated, truncated, _ = env.step(LEFT)
    assert (reward, terminated, truncated) == (101.001, True, False)
    assert observation["alive"] == 1
    assert observation in env.observation_space


def test_a_limit_of_steps_truncates():
    env = make(max_steps=2)
    env.reset(seed=0)
    placed(env, [(5, 5), (5, 4)], EAST, (9, 9))
    assert [env.step(STRAIGHT)[2:4] for _ in range(2)] == [(False, False), (False, True)]
    with pytest.raises(ResetNeededError):
        env.step(STRAIGHT)


def test_what_it_sees():
    env = make(height=6, width=7)
    env.reset(seed=0)
    observation = placed(env, [(2, 2), (2, 1)], EAST, (2, 4)).step(STRAIGHT)[0]
    planes, grid = observation["observation"], observation["grid"]
    assert planes.shape == (6, 7, 8)
    for plane, number in ((0, 1), (1, 2), (5, 3), (6, 4), (7, 5)):
        assert np.array_equal(planes[..., plane], grid == number)
    assert not planes[..., 2:5].any()
    env = make(height=6, width=7, vision_range=2)
    env.reset(seed=0)
    near = placed(env, [(2, 2), (2, 1)], EAST, (2, 4)).step(STRAIGHT)[0]["observation"]
    assert near.shape == (5, 5, 8)
    assert np.array_equal(near, planes[0:5, 1:6])
    assert near[2, 2, 7] == 1  # the head


def test_beyond_the_walls_it_sees_nothing():
    env = make(height=4, width=4, snake_length=2, vision_range=5)
    observation = env.reset(seed=1)[0]["observation"]
    assert observation.shape == (11, 11, 8)
    assert observation.sum() == 12 + 2 + 1  # walls, snake, fruit


def test_rewards_can_be_chosen():
    env = make(reward_dict={"fruit": 5, "time": -0.5})
    env.reset(seed=0)
    placed(env, [(2, 2), (2, 1)], EAST, (2, 3))
    assert [env.step(STRAIGHT)[1] for _ in range(2)] == [4.5, -0.5]


def test_equal_seeds_equal_trajectories():
    one, two = (play(make(height=7, width=9), 300) for _ in range(2))
    assert data_equivalence(one, two, exact=True)
    starts = {each[0]["grid"].tobytes() for each in one if len(each) == 2}
    assert len(starts) > 5


@pytest.mark.parametrize("shape", [(4, 4, 2), (4, 9, 7), (9, 4, 7)])
def test_snakes_are_born_anywhere(shape):
    height, width, length = shape
    heads, directions = set(), set()
    for seed in range(200):
        snake = Snake.born((height, width), length, np.random.default_rng(seed))
        assert snake.is_possible() and snake.fruit is not None
        heads.add(snake.body[0])
        directions.add(snake.direction)
    assert len(directions) == (4 if length == 2 else 2)
    assert len(heads) >= 4


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"height": 3}, "height"),
        ({"width": 65}, "width"),
        ({"width": 5.0}, "width"),
        ({"snake_length": 1}, "snake_length"),
        ({"height": 5, "width": 5, "snake_length": 4}, "snake_length"),
        ({"vision_range": 0}, "vision_range"),
        ({"observer": "bird"}, "observer"),
        ({"reward_dict": {"apple": 1}}, "reward_dict"),
        ({"reward_dict": {"fruit": None}}, "reward_dict"),
        ({"max_steps": -1}, "max_steps"),
        ({"render_mode": "gif"}, "render_mode"),
    ],
    ids=str,
)
def test_wrong_options(options, field):
    with pytest.raises(InvalidOptionError, match=field) as caught:
        SnakeEnvironment(**options)
    assert caught.value.field == field


@pytest.mark.parametrize("action", [3, -1, 0.5, "left", None])
def test_wrong_actions(action):
    env = make()
    env.reset(seed=0)
    with pytest.raises(InvalidActionError):
        env.step(action)
    assert env.environment.state.step_count == 0


def test_rendering():
    env = make(height=5, width=6, render_mode="rgb_array")
    env.reset(seed=0)
    picture = env.render()
    assert (picture.shape, picture.dtype) == ((80, 96, 3), np.uint8)
    silent = make()
    silent.reset(seed=0)
    assert silent.render() is None


def test_a_saved_state_brings_back_everything():
    env, other = (make(height=8, width=8, render_mode="ansi") for _ in range(2))
    env.reset(seed=5)
    env.step(LEFT)
    saved = json.loads(json.dumps(env.environment.save_state()))
    seen, state = env.render(), env.environment.state
    expected = [env.step(RIGHT), env.reset(), env.step(LEFT)]
    other.reset(seed=9)
    for each in (env, other):
        each.environment.restore_state(saved)
        assert (each.render(), each.environment.state) == (seen, state)
        assert data_equivalence(
            [each.step(RIGHT), each.reset(), each.step(LEFT)], expected, exact=True
        )


def test_what_is_no_saved_state_is_refused():
    environment = SnakeEnvironment(height=8, width=8)
    environment.reset(seed=0)
    saved = environment.save_state()
    for wrong in (
        None,
        {},
        SnakeEnvironment(height=9, width=8).save_state(),
        {**saved, "body": [[1, 1]]},
        {**saved, "body": [[1, 1], [1, 3]]},
        {**saved, "body": [[0, 1], [1, 1]]},
        {**saved, "body": [[1, 1], [1, 2], [1, 1]]},
        {**saved, "body": [[1, 1], [1, 2, 3]]},
        {**saved, "body": [[1, 10**30], [1, 2]]},
        {**saved, "body": "snake"},
        {**saved, "fruit": [7, 7]},
        {**saved, "fruit": saved["body"][1]},
        {**saved, "direction": 4},
        {**saved, "score": float("inf")},
        {**saved, "alive": 1},
    ):
        with pytest.raises(InvalidOptionError, match="not a saved state") as caught:
            environment.restore_state(wrong)
        assert caught.value.field == "saved"
    assert environment.save_state() == saved


@pytest.mark.parametrize("protocol", ["binary", "json"])
def test_the_typed_client(protocol):
    options = {"height": 6} if protocol == "binary" else {}
    handle = SnakeEnv.from_env(
        "snake_env", provider="thread", options=options or None, protocol=protocol
    )
    with handle.sync() as client:
        observation = client.reset(seed=1).observation
        assert observation.grid.shape == (6 if options else 20, 20)
        assert observation.observation.shape == (*observation.grid.shape, 8)
        result = client.step(SnakeAction(action=1))
        assert result.observation.episode_steps == 1
        assert client.describe_actions()["legal"] == [{"action": action} for action in range(3)]
