"""What holds for each environment: seeds, rubrics, wrong input, saved states, vectors, containers."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import openenv_gym
from openenv_gym.errors import InvalidActionError, InvalidOptionError, ProtocolError
from openenv_gym.models.manifest import load_manifest
from openenv_gym.registration import lookup
from openenv_gym.rubrics import Gate, Rubric, WeightedSum
from tests.support.images import image

from .every import CASES, Case, in_containers, play, same


ENVS = Path(__file__).parents[2] / "envs"

every = pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)

# Whatever a client could send: no action, no option and no state of any environment; or one, where
# text is taken.
ODD = [
    None,
    math.nan,
    math.inf,
    -1,
    10**30,
    "",
    "\0\u202e\U0001d518",
    b"\xff",
    [],
    [[[[]]]],
    {"a": {}},
    np.full(3, np.nan),
    np.zeros((50, 50)),
    np.array(["a"], object),
    2 + 3j,
    {1, 2},
    np.int64(-3),
    np.datetime64("2020"),
]


def halves() -> Rubric:
    """Return a rubric that gives half of the environment's own reward, and a half for nothing."""
    return WeightedSum([Own(), Gate(Nothing(), threshold=0.0)], [0.5, 0.5])


class Own(Rubric):
    def forward(self, action: Any, observation: Any) -> float:
        return float(observation.reward or 0.0)


class Nothing(Rubric):
    def forward(self, action: Any, observation: Any) -> float:
        return 1.0


@every
@pytest.mark.filterwarnings(
    "ignore:.*A Box observation space m:UserWarning"
)  # prices have no bounds
def test_gymnasium_and_equal_seeds(case: Case) -> None:
    with case.make() as env, case.make() as other:
        check_env(env.unwrapped, skip_render_check=True)
        assert same(play(env, 60), play(other, 60))


@every
def test_a_rubric_takes_the_place_of_the_reward(case: Case) -> None:
    with case.make() as plain, case.make(rubric=f"{__name__}:halves") as scored:
        for own, given in zip(play(plain, 20), play(scored, 20), strict=True):
            if len(given) == 2:
                continue
            components = given[4]["reward_components"]
            assert given[1] == pytest.approx(0.5 * components["rubric_0"] + 0.5)
            if case.id != "Coding-v0":  # whose own reward is a rubric's
                assert components["rubric_0"] == own[1]


@every
def test_odd_actions_are_refused_or_taken_and_the_environment_goes_on(case: Case) -> None:
    with case.make() as env:
        env.reset(seed=1)
        for odd in ODD:
            try:
                observation, reward, terminated, truncated, _ = env.unwrapped.step(odd)
            except InvalidActionError:
                continue
            assert observation in env.observation_space and math.isfinite(reward)
            if terminated or truncated:
                env.reset()
        assert play(env, 3)


@every
def test_odd_options_are_refused_by_name(case: Case) -> None:
    with pytest.raises(InvalidOptionError, match="colour") as caught:
        case.make(colour="red")
    assert caught.value.field == "colour"
    with pytest.raises(InvalidOptionError) as caught:
        case.make(rubric="nowhere:Nothing")
    assert caught.value.field == "rubric"


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if case.id != "Atari-v0"],  # ALE takes whatever there is
    ids=lambda case: case.id,
)
def test_odd_options_of_a_reset_are_refused_and_the_episode_goes_on(case: Case) -> None:
    with case.make() as env, case.make() as other:
        play(env, 3), play(other, 3)
        with pytest.raises(InvalidOptionError, match="nonsense"):
            env.reset(seed=9, options={"nonsense": 1})
        # Nothing has changed, the generator included.
        assert same(env.reset(options={}), other.reset())


@every
def test_odd_states_are_refused_and_nothing_changes(case: Case) -> None:
    with case.make() as env:
        play(env, 3)
        session = env.unwrapped.openenv
        if not case.saves:
            with pytest.raises(NotImplementedError):
                session.save_state()
            return
        saved = session.save_state()
        steps, state = saved
        odd_states = [*ODD, *([steps, odd] for odd in ODD)]
        odd_states += [[steps, {**state, name: {"a": {}}}] for name in state]
        # A seed may be any number, and so may an amount.
        large = [
            name for name in state if name != "np_random_seed" and type(state[name]) is not float
        ]
        odd_states += [[steps, {**state, name: 10**30}] for name in large]
        odd_states += [[steps, {**state, "more": 1}]]
        odd_states += [[steps, {k: v for k, v in state.items() if k != name}] for name in state]
        for odd in odd_states:
            with pytest.raises((InvalidOptionError, ProtocolError)):
                session.restore_state(odd)
            assert session.save_state() == saved


@every
def test_a_state_goes_on_in_another_session_and_in_a_vector(case: Case) -> None:
    if not case.saves:
        pytest.skip("its interpreter cannot be saved")
    with case.make() as env:
        play(env, 7)
        env.reset()
        state = env.unwrapped.openenv.save_state()
        if case.id != "Atari-v0":
            assert json.loads(json.dumps(state)) == state
        action = env.action_space.sample()
        if "Discrete" in type(env.action_space).__name__:
            action = 0
        expected = env.step(action)
        with case.make() as other:
            other.unwrapped.openenv.restore_state(state)
            assert same(other.unwrapped.step(action), expected)
        envs = gymnasium.make_vec(
            f"openenv/{case.id}", num_envs=2, provider="thread", **case.options
        )
        envs.restore_states([state, state])
        batch = envs.action_space.sample()
        batch = tuple([action] * 2) if isinstance(batch, tuple) else np.array([action] * 2)
        _, rewards, terminations, *_ = envs.step(batch)
        envs.close()
        assert rewards.tolist() == [expected[1]] * 2
        assert terminations.tolist() == [expected[2]] * 2


@every
def test_some_of_a_vector_are_moved_as_if_they_were_alone(case: Case) -> None:
    options = {**case.options, **case.here}
    envs = gymnasium.make_vec(f"openenv/{case.id}", num_envs=3, provider="thread", **options)
    alone = case.make()
    try:
        envs.reset(seed=5)
        alone.reset(seed=6)  # that of the one in the middle
        alone.action_space.seed(2)
        for _ in range(3):
            action = alone.action_space.sample()
            space = envs.action_space
            batch = (action,) if isinstance(space.sample(), tuple) else np.array([action])
            envs.send(batch, [1])
            got = envs.recv(1)
            expected = alone.unwrapped.step(action)
            assert got.env_ids.tolist() == [1]
            found = got.rewards[0], got.terminations[0], got.truncations[0]
            assert found == expected[1:4]
            if expected[2] or expected[3]:
                break
    finally:
        envs.close()
        alone.close()


@pytest.mark.parametrize("package", sorted({case.package for case in CASES}))
def test_manifests_agree_with_the_code(package: str) -> None:
    manifest = load_manifest(ENVS / package / "openenv.yaml")
    stem = package.removesuffix("_env").replace("_", "-")
    assert (manifest.name, manifest.image) == (package, f"openenv-gym-{stem}")
    assert manifest.distribution == f"openenv-gym-{stem}"
    for entry in manifest.ids:
        case = next(case for case in CASES if case.id == entry.id)
        with case.make() as env:
            assert list(entry.render_modes) == env.metadata["render_modes"]
            assert entry.render_fps == env.metadata["render_fps"]
        assert lookup(f"openenv/{entry.id}").package == package


@pytest.mark.timeout(600)
@pytest.mark.container
@pytest.mark.parametrize("case", in_containers(), ids=lambda case: case.id)
def test_a_thousand_steps_in_a_container_as_in_a_thread(case: Case) -> None:
    image(case.package)
    with case.make("docker") as far, case.make() as near:
        assert same(play(far, 1000), play(near, 1000))


def test_every_id_is_here() -> None:
    ids = {f"openenv/{case.id}" for case in CASES}
    own = {
        f"openenv/{entry.id}"
        for path in ENVS.glob("*/openenv.yaml")
        for entry in load_manifest(path).ids
    }
    assert own == ids
    assert openenv_gym.__name__ == "openenv_gym"
