from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest

import openenv_gym
from openenv_gym.errors import InvalidOptionError, ProtocolError
from openenv_gym.ray.playing import Amount, load_actor, play
from openenv_gym.ray.rollouts import Rollouts, merge


SEED = 7
AMOUNTS = [Amount(40, "steps"), Amount(2, "episodes")]


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    with openenv_gym.start_server("openenv/CartPole-v1", provider="thread") as running:
        yield running


def played(
    server: Any, num_envs: int, seeds: range, amount: Amount, first: int = 0, **options: Any
) -> Rollouts:
    policy, weights = options.pop("policy", "random"), options.pop("weights", None)
    envs = gymnasium.make_vec(
        options.pop("id", "openenv/CartPole-v1"), num_envs=num_envs, server=server, **options
    )
    try:
        return play(envs, load_actor(policy, weights, envs), seeds, amount, first=first)
    finally:
        envs.close()


def assert_equal(one: Rollouts, other: Rollouts) -> None:
    for name in ("observations", "actions", "rewards", "rollout", "seed", "length"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name
    assert np.array_equal(one.terminated, other.terminated)
    assert np.array_equal(one.truncated, other.truncated)


def local_episodes(seed: int, amount: Amount) -> Iterator[tuple[list[Any], list[Any], bool]]:
    """What the local environment gives: observations, actions and the end of each episode."""
    env = gymnasium.make("CartPole-v1")
    env.action_space.seed(seed)
    observation, _ = env.reset(seed=seed)
    steps = episodes = 0
    while True:
        observations, actions = [observation], []
        over = finished = False
        while not (over or finished):
            actions.append(env.action_space.sample())
            observation, _, terminated, truncated, _ = env.step(actions[-1])
            observations.append(observation)
            steps += 1
            over = terminated or truncated
            episodes += over
            finished = (steps if amount.of == "steps" else episodes) == amount.count
        yield observations, actions, terminated
        if finished:
            return
        observation, _ = env.reset()
        env.action_space.sample()  # the action of the step that resets, which a vector ignores


@pytest.mark.parametrize("amount", AMOUNTS, ids=lambda amount: amount.of)
def test_rollouts_are_those_of_the_local_environment(server: Any, amount: Amount) -> None:
    result = played(server, 4, range(SEED, SEED + 9), amount)
    number = 0
    for rollout in range(9):
        for observations, actions, terminated in local_episodes(SEED + rollout, amount):
            episode = result.episode(number)
            assert (episode.rollout, episode.seed) == (rollout, SEED + rollout)
            assert np.array_equal(episode.observations, observations)
            assert episode.actions.tolist() == actions
            assert episode.terminated == terminated
            assert result.returns[number] == len(actions)
            number += 1
    assert number == result.num_episodes == len(list(result))


@pytest.mark.parametrize("amount", AMOUNTS, ids=lambda amount: amount.of)
def test_who_played_what_with_how_many_changes_nothing(server: Any, amount: Amount) -> None:
    whole = played(server, 9, range(SEED, SEED + 9), amount)
    parts = [
        played(server, 2, range(SEED + 5, SEED + 9), amount, first=5),
        played(server, 8, range(SEED, SEED + 5), amount),
    ]
    assert_equal(whole, merge(parts))


def test_an_environment_that_was_played_before_plays_the_same_again(server: Any) -> None:
    envs = gymnasium.make_vec("openenv/CartPole-v1", num_envs=3, server=server)
    actor = load_actor("random", None, envs)
    first, _, again = (
        play(envs, actor, range(seed, seed + 5), Amount(2, "episodes")) for seed in (1, 50, 1)
    )
    envs.close()
    assert_equal(first, again)


def test_a_rollout_twice_is_refused(server: Any) -> None:
    part = played(server, 2, range(3), AMOUNTS[0])
    with pytest.raises(ProtocolError, match="Rollout 0 is there twice"):
        merge([part, part])


def test_transitions_go_from_each_observation_to_the_next(server: Any) -> None:
    result = played(server, 2, range(5), AMOUNTS[1])
    rows = result.transitions()
    assert {len(column) for column in rows.values()} == {result.num_steps}
    for episode, start in zip(result, result.starts, strict=True):
        end = start + len(episode.actions)
        assert np.array_equal(rows["observations"][start:end], episode.observations[:-1])
        assert np.array_equal(rows["next_observations"][start:end], episode.observations[1:])
        assert rows["terminations"][start:end].tolist() == [False] * (end - start - 1) + [True]
        assert set(rows["rollouts"][start:end]) == {episode.rollout}
    assert not rows["truncations"].any()


def test_a_time_limit_truncates(server: Any) -> None:
    result = played(server, 2, range(2), Amount(3, "episodes"), max_episode_steps=5)
    assert result.length.tolist() == [5] * 6
    assert result.truncated.all() and not result.terminated.any()


def test_a_rollout_that_ends_in_mid_episode_has_neither_end(server: Any) -> None:
    result = played(server, 2, range(2), Amount(3, "steps"))
    assert result.length.tolist() == [3, 3]
    assert not (result.terminated | result.truncated).any()


def test_a_function_acts_with_the_generators_of_the_rollouts(server: Any) -> None:
    def act(observations: Any, infos: Any, generators: Any) -> Any:
        return np.array([generator.integers(2) for generator in generators])

    amount = Amount(2, "episodes")
    one = played(server, 6, range(6), amount, policy=act)
    assert_equal(one, played(server, 4, range(6), amount, policy=act))
    assert one.actions[0] == np.random.default_rng(0).integers(2)


def test_an_engine_that_takes_neither_masks_nor_gaps_between_seeds_plays_too(server: Any) -> None:
    result = played(server, 4, range(5, 8), AMOUNTS[1], engine="native")
    assert result.rollout.tolist() == [0, 0, 1, 1, 2, 2] and result.terminated.all()


def test_a_function_may_use_its_memory_again(server: Any) -> None:
    actions = np.zeros(2, np.int64)

    def act(observations: Any) -> Any:
        actions[:] = 1 - actions
        return actions

    result = played(server, 2, range(2), Amount(4, "steps"), policy=act)
    assert result.actions.tolist() == [1, 0, 1, 0] * 2


class _Levers(gymnasium.Env[Any, Any]):
    """Takes an action of several parts, and goes on."""

    observation_space = gymnasium.spaces.Discrete(2)

    def __init__(self, action_space: Any) -> None:
        self.action_space = action_space

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return 0, {}

    def step(self, action: Any) -> Any:
        return 0, 1.0, False, False, {}


_LEVER = gymnasium.spaces.Discrete(9)


@pytest.mark.parametrize(
    ("space", "put"),
    [
        (gymnasium.spaces.Dict(a=_LEVER), lambda memory: {"a": memory}),
        (gymnasium.spaces.Tuple([_LEVER]), lambda memory: (memory,)),
        (gymnasium.spaces.Tuple([gymnasium.spaces.Dict(a=_LEVER)]), lambda m: ({"a": m},)),
    ],
    ids=["dict", "tuple", "nested"],
)
def test_a_function_may_use_its_memory_again_for_parts_of_actions(space: Any, put: Any) -> None:
    memory = np.zeros(2, np.int64)
    action = put(memory)

    def act(observations: Any) -> Any:
        memory[:] += 1
        return action

    envs = gymnasium.vector.SyncVectorEnv([lambda: _Levers(space)] * 2)
    result = play(envs, load_actor(act, None, envs), range(2), Amount(3, "steps"))
    envs.close()
    for episode in result:
        kept = episode.actions
        while not isinstance(kept, np.ndarray):
            kept = kept["a"] if isinstance(kept, dict) else kept[0]
        assert kept.tolist() == [1, 2, 3]


def test_weights_make_the_policy(server: Any) -> None:
    def policy(weights: Any) -> Any:
        return lambda observations: np.full(len(observations), weights)

    assert played(server, 2, range(2), AMOUNTS[0], policy=policy, weights=1).actions.all()
    assert not played(server, 2, range(2), AMOUNTS[0], policy=policy, weights=0).actions.any()


def test_only_legal_actions_are_drawn_at_random() -> None:
    with openenv_gym.start_server("openenv/Taxi-v4", provider="thread") as server:
        envs = gymnasium.make_vec("openenv/Taxi-v4", num_envs=3, server=server)
        observations, infos = envs.reset(seed=3)
        actor = load_actor("random", None, envs)
        for row in range(3):
            actor.begin(row, row)
        for _ in range(100):
            actions = actor.act(observations, infos)
            assert infos["action_mask"][np.arange(3), actions].all()
            observations, *_, infos = envs.step(actions)
        envs.close()
        # A sub-environment that begins anew has a mask, and so have those that go on.
        result = played(server, 2, range(5), Amount(30, "steps"), id="openenv/Taxi-v4")
        assert_equal(result, played(server, 5, range(5), Amount(30, "steps"), id="openenv/Taxi-v4"))


def test_observations_need_not_be_arrays() -> None:
    def make() -> Any:
        return _Texts()

    envs = openenv_gym.RemoteVectorEnv([make, make])
    result = play(envs, load_actor("random", None, envs), range(3), Amount(2, "episodes"))
    envs.close()
    assert result.num_episodes == 6
    first = result.episode(0)
    assert first.observations["words"] == ("0", "1", "2")
    assert first.observations["numbers"].tolist() == [0, 1, 2]


class _Texts(gymnasium.Env[Any, Any]):
    """Counts to two, in words and numbers."""

    observation_space = gymnasium.spaces.Dict(
        words=gymnasium.spaces.Text(8), numbers=gymnasium.spaces.Discrete(3)
    )
    action_space = gymnasium.spaces.Text(4)
    count = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.count = 0
        return self._observe(), {}

    def step(self, action: Any) -> Any:
        self.count += 1
        return self._observe(), 1.0, self.count == 2, False, {}

    def _observe(self) -> Any:
        return {"words": str(self.count), "numbers": self.count}


@pytest.mark.parametrize(
    "policy", ["chance", "openenv_gym:no_such", "no_such_module_here:act", 7, "openenv_gym:errors"]
)
def test_what_is_no_policy_is_refused(server: Any, policy: Any) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        played(server, 1, range(1), AMOUNTS[0], policy=policy)
    assert caught.value.field == "policy" and repr(policy) in str(caught.value)
