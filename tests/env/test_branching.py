"""States that are saved and restored from afar, by clients of every kind."""

from __future__ import annotations

import copy
import json

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode

import openenv_gym
from openenv_gym import errors


MAZE = "openenv/Maze-v0"


@pytest.fixture
def open_envs():
    opened = []

    def make(env_id: str = MAZE, **options):
        opened.append(gymnasium.make(env_id, **{"provider": "thread", **options}))
        return opened[-1]

    yield make
    for env in opened:
        env.close()


@pytest.fixture
def open_vectors():
    opened = []

    def make(env_id: str = MAZE, **options):
        opened.append(gymnasium.make_vec(env_id, **{"provider": "thread", **options}))
        return opened[-1]

    yield make
    for envs in opened:
        envs.close()


def walk(env, count: int = 20) -> list:
    rng = np.random.default_rng(1)
    return [env.step(int(rng.integers(4))) for _ in range(count)]


def test_a_state_goes_to_another_session_and_another_server(open_envs):
    env = open_envs(size=31)
    env.reset(seed=7)
    walk(env, 5)
    saved = json.loads(json.dumps(env.unwrapped.openenv.save_state()))
    told = env.unwrapped.openenv.state()
    expected = [*walk(env), env.reset()]
    with openenv_gym.start_server(MAZE, provider="thread") as shared:
        others = [open_envs(size=31, server=shared, provider=None) for _ in range(2)]
        others.append(open_envs(size=31, provider="process"))
        for other in (env, *others):
            other.reset(seed=1)
            other.unwrapped.openenv.restore_state(saved)
            assert other.unwrapped.openenv.state() == told
            assert data_equivalence([*walk(other), other.reset()], expected, exact=True)


def test_the_generator_goes_back_and_can_be_set_for_another_future(open_envs):
    env = open_envs()
    env.reset(seed=7)
    session = env.unwrapped.openenv
    saved = session.save_state()
    mazes = []
    for generator in (None, None, 5):
        session.restore_state(saved)
        if generator is not None:
            env.unwrapped.np_random = np.random.default_rng(generator)
        mazes.append(env.reset()[1]["maze"].tobytes())
    assert mazes[0] == mazes[1] != mazes[2]


def test_a_copy_has_a_session_of_its_own(open_envs):
    env = open_envs(size=31)
    env.reset(seed=7)
    walk(env, 3)
    branch = copy.deepcopy(env.unwrapped)
    assert data_equivalence(walk(branch), walk(env), exact=True)
    branch.close()


def test_other_options_are_refused(open_envs):
    env, other = open_envs(), open_envs(size=11)
    env.reset(seed=0), other.reset(seed=0)
    told = other.unwrapped.openenv.state()
    with pytest.raises(errors.InvalidOptionError, match="not a saved state") as caught:
        other.unwrapped.openenv.restore_state(env.unwrapped.openenv.save_state())
    assert caught.value.field == "saved"
    assert other.unwrapped.openenv.state() == told


def test_hostile_data_is_refused_and_the_session_goes_on(open_envs):
    env = open_envs()
    env.reset(seed=0)
    session = env.unwrapped.openenv
    saved = session.save_state()
    deep: list = []
    for _ in range(15):
        deep = [deep]
    wrong = [None, 5, "state", [], {}, [0], [1, 2, 3], [-1, saved[1]], [None, saved[1]], deep]
    wrong += [[0, inner] for inner in (None, 5, [], {}, deep, np.zeros(9), b"\x00" * 1000)]
    wrong += [
        [0, {**saved[1], name: value}]
        for name in saved[1]
        for value in (deep, np.zeros((3, 3)), 2**200, float("nan"), "x" * 10_000, -1)
        if name not in ("np_random_seed", "score")  # which may be any number
    ]
    for each in wrong:
        with pytest.raises((errors.InvalidOptionError, errors.ProtocolError)) as caught:
            session.restore_state(each)
        assert caught.value.field == "saved"
    assert data_equivalence(session.save_state(), saved, exact=True)
    env.step(0)


def test_what_has_no_states_says_so(open_envs):
    env = open_envs("openenv/CartPole-v1")
    env.reset(seed=0)
    with pytest.raises(NotImplementedError, match="CartPole"):
        env.unwrapped.openenv.save_state()
    with pytest.raises(NotImplementedError, match="CartPole"):
        env.unwrapped.openenv.restore_state([0, {}])
    fresh = open_envs()
    with pytest.raises(errors.ResetNeededError):
        fresh.unwrapped.openenv.save_state()


# -- vectors --------------------------------------------------------------------------------------


def test_each_sub_environment_takes_a_state_of_its_own(open_envs, open_vectors):
    env = open_envs(size=31)
    env.reset(seed=7)
    first = env.unwrapped.openenv.save_state()
    expected = walk(env)
    envs = open_vectors(num_envs=4, num_servers=2, size=31)
    envs.reset(seed=0)
    own = envs.save_states()
    assert len(own) == 4 and own[0] != own[1]
    envs.restore_states([None, first, own[0], first])
    assert envs.save_states() == (own[0], first, own[0], first)
    rng = np.random.default_rng(1)
    for _, wanted in zip(range(20), expected, strict=True):
        action = int(rng.integers(4))
        observations, rewards, *_ = envs.step(np.full(4, action))
        places = observations["current_position"]
        assert np.array_equal(places[1], wanted[0]["current_position"])
        assert np.array_equal(places[3], places[1]) and np.array_equal(places[0], places[2])
        assert rewards[1] == rewards[3] == wanted[1]


def test_some_are_restored_before_anything_was_seen_and_the_others_reset(open_envs, open_vectors):
    env = open_envs(size=9)
    seen, _ = env.reset(seed=4)
    state = env.unwrapped.openenv.save_state()
    envs = open_vectors(size=9, num_envs=2, autoreset_mode=AutoresetMode.DISABLED)
    envs.restore_states([state, state])
    observations, _ = envs.reset(seed=4, options={"reset_mask": np.array([False, True])})
    for key, value in seen.items():  # the first row holds nothing; what was there, the caller knows
        assert np.array_equal(observations[key][0], np.zeros_like(value))
    observations, _ = envs.reset(seed=4, options={"reset_mask": np.array([True, False])})
    assert data_equivalence({key: value[0] for key, value in observations.items()}, seen)


@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
def test_no_autoreset_is_due_after_it(open_vectors, mode):
    options = {"num_envs": 2, "maze": "S.\n.E", "autoreset_mode": mode}
    envs = open_vectors(**options)
    envs.reset(seed=0)
    start = envs.save_states()
    envs.step(np.array([1, 3]))
    ends = envs.step(np.array([3, 0]))
    assert ends[2].tolist() == [True, False]
    envs.restore_states(start)
    observations, rewards, *_ = envs.step(np.array([1, 1]))
    assert observations["current_position"].tolist() == [[0, 1], [0, 1]]
    assert rewards.tolist() == [-0.05, -0.05]


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_what_is_restored_after_a_loss_goes_on_from_there(open_vectors, mode):
    options = {"num_servers": 2, "maze": "S..\n...\n..E", "autoreset_mode": mode}
    envs = open_vectors(num_envs=2, on_failure="restart", **options)
    envs.reset(seed=0)
    envs.step(np.array([1, 1]))
    states = envs.save_states()
    envs._fleet.members[0]._release(0.0)  # stops the server
    with pytest.raises(errors.ConnectionLostError):
        envs.restore_states(states)
    envs.restore_states(states)
    observations, rewards, _, truncations, infos = envs.step(np.array([1, 1]))
    assert observations["current_position"].tolist() == [[0, 2], [0, 2]]
    assert rewards[0] == rewards[1]
    assert not truncations.any() and "server_restarted" not in infos


@pytest.mark.parametrize("num_servers", [1, 2])
def test_who_does_not_take_its_state_still_needs_a_reset(open_vectors, num_servers):
    envs = open_vectors(
        num_envs=2, num_servers=num_servers, maze="S.\n.E", autoreset_mode="Disabled"
    )
    envs.reset(seed=0)
    start = envs.save_states()
    envs.step(np.array([1, 1]))
    assert envs.step(np.array([3, 3]))[2].all()
    with pytest.raises(errors.InvalidOptionError):
        envs.restore_states([start[0], [0, {}]])
    with pytest.raises(errors.ResetNeededError, match=r"sub-environment\(s\) 1\."):
        envs.step(np.array([1, 1]))
    envs.restore_states([None, start[1]])
    observations, *_ = envs.step(np.array([1, 1]))
    assert observations["current_position"].tolist() == [[0, 1], [0, 1]]


def test_the_limit_of_a_vector_goes_back(open_vectors):
    envs = open_vectors(num_envs=1, max_episode_steps=3)
    envs.reset(seed=0)
    start = envs.save_states()
    for _ in range(3):
        envs.restore_states(start)
        ends = [envs.step(np.array([0]))[3][0] for _ in range(2)]
        assert ends == [False, False]
    assert envs.step(np.array([0]))[3].tolist() == [True]


def test_a_vector_names_the_one_that_does_not_take_its_state(open_vectors):
    envs = open_vectors(num_envs=4, num_servers=2)
    envs.reset(seed=0)
    states = envs.save_states()
    with pytest.raises(errors.InvalidOptionError, match="not a saved state") as caught:
        envs.restore_states([None, None, [0, {}], None])
    assert caught.value.data["index"] == 2
    for wrong in ([], [None] * 3):
        with pytest.raises(ValueError, match="Expected 4 states"):
            envs.restore_states(wrong)
    with pytest.raises(errors.ProtocolError):
        envs.restore_states([5, None, None, None])
    with pytest.raises(errors.EncodeError):
        envs.restore_states([object(), None, None, None])
    assert envs.save_states() == states
    envs.step(np.zeros(4, int))


def test_a_vector_of_what_has_no_states_says_so(open_vectors):
    envs = open_vectors("openenv/CartPole-v1", num_envs=2)
    envs.reset(seed=0)
    with pytest.raises(NotImplementedError, match="CartPole"):
        envs.save_states()
    with pytest.raises(NotImplementedError, match="CartPole"):
        envs.restore_states([[0, {}], None])
    native = open_vectors("openenv/CartPole-v1", num_envs=2, engine="native")
    native.reset(seed=0)
    with pytest.raises(NotImplementedError, match="cannot save"):
        native.save_states()
    with pytest.raises(NotImplementedError, match="cannot restore"):
        native.restore_states([None, None])
    fresh = open_vectors(num_envs=2)
    with pytest.raises(errors.ResetNeededError):
        fresh.save_states()


def test_not_while_steps_are_under_way(open_vectors):
    envs = open_vectors(num_envs=2)
    envs.reset(seed=0)
    states = envs.save_states()
    envs.step_async(np.zeros(2, int))
    with pytest.raises(gymnasium.error.AlreadyPendingCallError):
        envs.save_states()
    with pytest.raises(gymnasium.error.AlreadyPendingCallError):
        envs.restore_states(states)
    envs.step_wait()


# -- typed clients --------------------------------------------------------------------------------


def test_a_typed_client_branches_to_other_sessions():
    from maze_env import MazeAction, MazeEnv

    with MazeEnv.from_env("maze_env", provider="thread", options={"size": 31}).sync() as client:
        client.reset(seed=3)
        client.step(MazeAction(action=0))
        saved = client.save_state()
        branch = client.new_session()
        branch.restore_state(saved)
        for action in (1, 3, 1, 3):
            one, two = (each.step(MazeAction(action=action)) for each in (client, branch))
            assert data_equivalence(one.observation.model_dump(), two.observation.model_dump())
            assert one.reward == two.reward
        assert branch.state() == client.state()
        with pytest.raises(errors.InvalidOptionError, match="not a saved state"):
            branch.restore_state([0, {}])


def test_openenvs_json_has_no_states():
    from maze_env import MazeEnv

    with MazeEnv.from_env("maze_env", provider="thread", protocol="json").sync() as client:
        client.reset(seed=3)
        for method, arguments in ((client.save_state, ()), (client.restore_state, ([0, {}],))):
            with pytest.raises(errors.ConfigurationError, match="OpenEnv's JSON"):
                method(*arguments)
        client.step({"action": 0})
