"""What a vector session answers is what Gymnasium's vector environments return, to the bit."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.wrappers import TimeLimit

from openenv_gym.server import create_app, load_app
from openenv_gym.server.adapter import TypedEnv
from openenv_gym.server.gymnasium_app import app as gymnasium_app
from tests.server.conftest import Site
from tests.server.vector.conftest import MODES, CountEnv, Drive, Wire, drive
from tests.spaces.compare import assert_identical


# Gymnasium before 1.3 has the version before.
TAXI = "Taxi-v4" if "Taxi-v4" in gymnasium.registry else "Taxi-v3"

IDS = ["CartPole-v1", TAXI, "FrozenLake-v1", "Pendulum-v1", "Blackjack-v1"]
COUNT = 4


def normal(values: Any) -> Any:
    """Infos in one order of keys, in which Gymnasium's own two implementations differ.

    Arrays of objects become lists, whose items can be compared.
    """
    if isinstance(values, np.ndarray) and values.dtype == object:
        return [normal(value) for value in values]
    if isinstance(values, dict):
        return {key: normal(values[key]) for key in sorted(values)}
    if isinstance(values, (tuple, list)):
        return tuple([normal(value) for value in values])
    return values


def assert_equal(ours: Any, theirs: Any, where: str) -> None:
    assert_identical(normal(ours), normal(theirs), where)


def play(ours: Any, theirs: VectorEnv[Any, Any, Any], steps: int, mode: AutoresetMode) -> int:
    """Compare a rollout; return how many episodes ended."""
    ended = 0
    theirs.action_space.seed(7)
    seeds = [11 + i for i in range(theirs.num_envs)]
    assert_equal(ours("reset", seeds, None, None), theirs.reset(seed=11), "reset")
    for index in range(steps):
        actions = theirs.action_space.sample()
        expected = theirs.step(actions)
        assert_equal(ours("step", actions), expected, f"step {index}")
        over = expected[2] | expected[3]
        ended += int(over.sum())
        if mode is AutoresetMode.DISABLED and over.any():
            again = theirs.reset(options={"reset_mask": over.copy()})
            assert_equal(ours("reset", None, {}, over), again, f"reset at {index}")
    return ended


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("env_id", IDS)
def test_as_sync(env_id: str, mode: AutoresetMode) -> None:
    kwargs: dict[str, Any] = {}
    if env_id in ("Pendulum-v1", TAXI):
        kwargs["max_episode_steps"] = 30
    theirs: Any = SyncVectorEnv(
        [lambda: gymnasium.make(env_id, **kwargs)] * COUNT, autoreset_mode=mode
    )
    own = {} if not kwargs else {"own_limit": False, **kwargs}
    ours = drive(gymnasium_app, COUNT, mode, options={"env_id": env_id}, **own)
    try:
        assert play(ours, theirs, 200, mode) > 5
    finally:
        ours.close()
        theirs.close()


@pytest.mark.parametrize("mode", MODES)
def test_as_async(mode: AutoresetMode) -> None:
    theirs: Any = AsyncVectorEnv([lambda: gymnasium.make("CartPole-v1")] * 2, autoreset_mode=mode)
    ours = drive(gymnasium_app, 2, mode, options={"env_id": "CartPole-v1"})
    try:
        assert play(ours, theirs, 100, mode) > 3
    finally:
        ours.close()
        theirs.close()


@pytest.mark.parametrize("mode", MODES)
def test_over_a_connection(site: Site, mode: AutoresetMode) -> None:
    server_app = create_app(lambda: gymnasium.make("CartPole-v1").unwrapped)
    site.start(server_app.factory)
    theirs: Any = SyncVectorEnv(
        [lambda: TimeLimit(gymnasium.make("CartPole-v1").unwrapped, 20)] * COUNT,
        autoreset_mode=mode,
    )
    ours = Wire(site.client(), num_envs=COUNT, autoreset_mode=mode.value, max_episode_steps=20)
    assert play(ours, theirs, 120, mode) > 5
    theirs.close()


@pytest.mark.parametrize("mode", MODES)
def test_a_typed_environment(mode: AutoresetMode) -> None:
    app = load_app("echo_env")
    theirs: Any = SyncVectorEnv(
        [lambda: TypedEnv(app.factory(episode_length=5))] * 3,  # type: ignore[arg-type]
        autoreset_mode=mode,
    )
    ours = drive(app, 3, mode, options={"episode_length": 5})
    words = [f"word {i}" for i in range(7)]
    theirs.action_space.sample = lambda: tuple(words[i % 7] for i in range(3))
    try:
        assert play(ours, theirs, 40, mode) > 5
    finally:
        ours.close()
        theirs.close()


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Blackjack-v1"])
def test_a_sub_environment_depends_on_its_seed_only(env_id: str) -> None:
    options = {"env_id": env_id}
    together = drive(gymnasium_app, 5, options=options)
    apart = [
        drive(gymnasium_app, 2, options=options),
        drive(gymnasium_app, 3, options=options, first=2),
    ]
    rng = np.random.default_rng(0)
    seeds: list[int | None] = [5, 6, 7, 8, 9]

    def join(parts: list[Any]) -> Any:
        if isinstance(parts[0], tuple):
            return tuple(np.concatenate(column) for column in zip(*parts, strict=True))
        return np.concatenate(parts)

    whole = together("reset", seeds)
    parts = [apart[0]("reset", seeds[:2]), apart[1]("reset", seeds[2:])]
    assert_identical(whole[0], join([part[0] for part in parts]))
    for _ in range(150):
        actions = rng.integers(0, 2, 5)
        whole = together("step", actions)
        parts = [apart[0]("step", actions[:2]), apart[1]("step", actions[2:])]
        for index in range(4):
            assert_identical(whole[index], join([part[index] for part in parts]))


def test_the_time_limit_is_applied_once(site: Site) -> None:
    def ends(ours: Any) -> list[int]:
        ours("reset", [1])
        return [i for i in range(45) if ours("step", np.zeros((1, 1), np.float32))[3][0]]

    def opened(**more: Any) -> Drive:
        return drive(
            gymnasium_app, 1, AutoresetMode.SAME_STEP, options={"env_id": "Pendulum-v1"}, **more
        )

    assert ends(opened(own_limit=False, max_episode_steps=20)) == [19, 39]
    assert ends(opened(own_limit=False, max_episode_steps=None)) == []
    own = opened()
    assert own.host.describe()["vector"]["max_episode_steps"] == 200
    assert own.host.describe()["time_limit"] == 200
    own("reset", [1])
    assert [own("step", np.zeros((1, 1)))[3][0] for _ in range(200)] == [False] * 199 + [True]
    never = opened(own_limit=False)
    assert never.host.describe()["vector"]["max_episode_steps"] is None


def test_seeds_may_be_none_for_some() -> None:
    ours = drive(CountEnv, 3)
    ours("reset", [1, None, 3])
    first = ours("call", "np_random_seed", [], {})
    ours("reset", [None, 5, None])
    second = ours("call", "np_random_seed", [], {})
    assert (second[0], second[2]) == (first[0], first[2]) == (1, 3)
    assert second[1] == 5


def test_options_are_a_copy_for_each() -> None:
    class Greedy(CountEnv):
        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            found = options.pop("x")
            return super().reset(seed=seed, options={found: 1})[0], {"x": found}

    ours = drive(Greedy, 2)
    _, infos = ours("reset", None, {"x": "here"}, None)
    assert infos["x"].tolist() == ["here", "here"]
