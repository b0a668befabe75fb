"""The grid world: moves, rewards, ends, options, saved states."""

from __future__ import annotations

import json

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence

import openenv_gym  # noqa: F401  # registers the ids
from grid_world_env import GridWorldAction, GridWorldEnv, MoveAction
from grid_world_env.server.grid_world_environment import GridWorldEnvironment
from openenv_gym.errors import InvalidActionError, InvalidOptionError, ResetNeededError
from openenv_gym.rubrics import Rubric
from openenv_gym.server.adapter import TypedEnv


UP, DOWN, LEFT, RIGHT = range(4)
WALLS = [(1, 1), (2, 1), (1, 3)]


def make(**options) -> TypedEnv:
    return TypedEnv(GridWorldEnvironment(**options))


def place(observation) -> tuple[int, int]:
    return int(observation["x"]), int(observation["y"])


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


def test_up_decreases_x_which_is_the_row():
    env = make(start=(2, 2))
    for action, found in ((UP, (1, 2)), (DOWN, (2, 2)), (LEFT, (2, 1)), (RIGHT, (2, 2))):
        if action == UP:
            env.reset()
        assert place(env.step(action)[0]) == found


def test_a_walk_to_the_goal():
    env = make(size=3)
    observation, info = env.reset(seed=0)
    assert (place(observation), observation["message"]) == ((0, 0), "Walk to row 2, column 2.")
    assert info["action_mask"].tolist() == [0, 1, 0, 1]
    assert info["action_mask"].dtype == np.int8
    outcomes = [env.step(action)[1:4] for action in (DOWN, DOWN, RIGHT, RIGHT)]
    assert outcomes == [(-0.1, False, False)] * 3 + [(1.0, True, False)]
    with pytest.raises(ResetNeededError, match="over"):
        env.step(UP)


def test_walls_and_edges_are_in_the_way():
    env = make(walls=[(0, 1)])
    env.reset()
    for action in (RIGHT, UP, LEFT):
        observation, reward, *_ = env.step(action)
        assert (place(observation), reward) == ((0, 0), -0.1)
        assert observation["message"] == "Something is in the way."
    assert env.environment.legal_actions() == [GridWorldAction(action=MoveAction.DOWN)]


def test_a_limit_of_steps_truncates():
    env = make(max_steps=2)
    for _ in range(2):
        env.reset()
        assert env.step(UP)[2:4] == (False, False)
        assert env.step(UP)[2:4] == (False, True)
        with pytest.raises(ResetNeededError):
            env.step(UP)
    env = make(size=2, max_steps=2)
    env.reset()
    env.step(DOWN)
    assert env.step(RIGHT)[2:4] == (True, False)  # there with the last step


def test_equal_seeds_equal_trajectories():
    one, two = (play(make(start="random", walls=WALLS), 300) for _ in range(2))
    assert data_equivalence(one, two, exact=True)
    starts = {place(each[0]) for each in one if len(each) == 2}
    assert len(starts) > 1


def test_reset_without_a_seed_goes_on_with_the_generator():
    env, other = make(start="random"), make(start="random")
    first = [env.reset(seed=1)] + [env.reset() for _ in range(5)]
    again = [other.reset(seed=1)] + [other.reset() for _ in range(5)]
    assert data_equivalence(first, again, exact=True)
    assert len({place(observation) for observation, _ in first}) > 1


class Far(Rubric):
    def forward(self, action, observation):
        return observation.x + observation.y + 10 * (observation.reward or 0)


def test_a_rubric_gives_the_reward_instead():
    env = make(rubric=Far(), size=3)
    env.reset()
    assert [env.step(DOWN)[1], env.step(RIGHT)[1]] == [0.0, 1.0]
    _, reward, _, _, info = env.step(UP)
    assert (reward, info["reward_components"]) == (0.0, {})


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"size": 1}, "size"),
        ({"start": np.zeros(2)}, "start"),
        ({"rubric": "nowhere:Nothing"}, "rubric"),
        ({"rubric": 3}, "rubric"),
        ({"size": 65}, "size"),
        ({"size": 5.0}, "size"),
        ({"size": True}, "size"),
        ({"start": (5, 0)}, "start"),
        ({"start": (0,)}, "start"),
        ({"start": "anywhere"}, "start"),
        ({"start": (4, 4)}, "start"),
        ({"start": (0, 1), "walls": [(0, 1)]}, "start"),
        ({"goal": (-1, 0)}, "goal"),
        ({"goal": [0, True]}, "goal"),
        ({"walls": 3}, "walls"),
        ({"walls": "(1, 1)"}, "walls"),
        ({"walls": [(4, 4)]}, "walls"),
        ({"walls": [(0, 9)]}, "walls"),
        ({"max_steps": 0}, "max_steps"),
        ({"render_mode": "human"}, "render_mode"),
    ],
    ids=str,
)
def test_wrong_options(options, field):
    with pytest.raises(InvalidOptionError, match=field) as caught:
        GridWorldEnvironment(**options)
    assert caught.value.field == field


@pytest.mark.parametrize("action", [4, -1, 1.5, "UP", None])
def test_wrong_actions(action):
    env = make()
    env.reset()
    with pytest.raises(InvalidActionError):
        env.step(action)
    assert place(env.step(DOWN)[0]) == (1, 0)


def test_rendering():
    env = make(size=3, walls=[(1, 1)], render_mode="ansi")
    env.reset()
    assert env.render() == "A..\n.#.\n..G"
    env = make(size=3, render_mode="rgb_array")
    env.reset()
    picture = env.render()
    assert (picture.shape, picture.dtype) == ((48, 48, 3), np.uint8)
    assert make().render() is None


def test_a_saved_state_brings_back_everything():
    env, other = (make(start="random", walls=WALLS, render_mode="ansi") for _ in range(2))
    env.reset(seed=1)
    env.step(DOWN)
    saved = json.loads(json.dumps(env.environment.save_state()))
    seen, state = env.render(), env.environment.state
    expected = [env.step(UP), env.step(RIGHT), env.reset(), env.reset()]
    for each in (env, other):
        each.environment.restore_state(saved)
        assert (each.render(), each.environment.state) == (seen, state)
        found = [each.step(UP), each.step(RIGHT), each.reset(), each.reset()]
        assert data_equivalence(found, expected, exact=True)


def test_what_is_no_saved_state_is_refused():
    environment = GridWorldEnvironment(walls=WALLS)
    environment.reset(seed=0)
    saved = environment.save_state()
    other = GridWorldEnvironment(size=7)
    other.reset()
    for wrong in (
        None,
        [],
        "state",
        {},
        other.save_state(),
        {**saved, "more": 1},
        {**saved, "x": 99},
        {**saved, "x": 1.0},
        {**saved, "x": 1, "y": 1},
        {**saved, "step_count": -1},
        {**saved, "step_count": True},
        {**saved, "options": None},
        {**saved, "np_random": {"bit_generator": "seed", "state": 1}},
        {**saved, "np_random": {**saved["np_random"], "state": {"state": -1, "inc": "x"}}},
    ):
        with pytest.raises(InvalidOptionError, match="not a saved state") as caught:
            environment.restore_state(wrong)
        assert caught.value.field == "saved"
    assert environment.save_state() == saved


def test_the_typed_client():
    with GridWorldEnv.from_env("grid_world_env", provider="thread").sync() as client:
        assert client.reset(seed=1).observation.x == 0
        result = client.step(GridWorldAction(action=MoveAction.DOWN))
        assert (result.observation.x, result.reward, result.done) == (1, -0.1, False)
        legal = client.describe_actions()["legal"]
        assert legal == [{"action": "UP"}, {"action": "DOWN"}, {"action": "RIGHT"}]
