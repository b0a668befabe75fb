"""`TypedEnv` seen by Gymnasium."""

# No `from __future__ import annotations`: Pydantic needs the annotations themselves.

import warnings
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces as gs
from gymnasium.utils.env_checker import check_env
from pydantic import Field, create_model

from openenv_gym.errors import ConfigurationError, InvalidActionError, SpaceError
from openenv_gym.models import Action, Array, Observation, State
from openenv_gym.server import create_app
from openenv_gym.server.adapter import TypedEnv
from openenv_gym.server.environment import Environment


class Walk(Action):
    direction: Literal["left", "right"]


class Place(Observation):
    position: int = Field(ge=-10, le=10)
    wind: Annotated[np.ndarray, Array((2,), "float32", -1, 1)]


class Corridor(Environment[Walk, Place, State]):
    """A walk in the wind, to the left or to the right, at most 10 steps either way."""

    action_model = Walk
    observation_model = Place
    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi", "rgb_array"], "render_fps": 10}

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.position = 0
        self.reward: Any = None
        self.closed = 0
        self.options: Any = "never reset"

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Place:
        self.begin_episode(seed)
        self.options = options
        self.position = 0
        return self.look(reward=None)

    def step(self, action: Walk) -> Place:
        self.position += 1 if action.direction == "right" else -1
        steps = self.count_step()
        return self.look(
            reward=self.reward,
            done=abs(self.position) == 10 or steps == 20,
            truncated=steps == 20,
        )

    def look(self, **fields: Any) -> Place:
        wind = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        metadata = {"steps": self._step_count}
        return Place(position=self.position, wind=wind, metadata=metadata, **fields)

    def render(self) -> Any:
        if self.render_mode == "ansi":
            return f"at {self.position}"
        return np.full((4, 4, 3), self.position + 10, np.uint8)

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def corridor() -> Corridor:
    return Corridor()


@pytest.fixture
def env(corridor: Corridor) -> TypedEnv:
    return TypedEnv(corridor)


@pytest.fixture
def registered() -> Iterator[str]:
    name = "OpenEnvGymTestCorridor-v0"
    gymnasium.register(name, entry_point=lambda **kwargs: TypedEnv(Corridor(**kwargs)))
    yield name
    del gymnasium.registry[name]


# -- Gymnasium's own checks -------------------------------------------------------------------


@pytest.mark.parametrize("render_mode", [None, "ansi", "rgb_array"])
def test_check_env_has_nothing_to_say(registered: str, render_mode: str | None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gymnasium.make(registered, render_mode=render_mode).unwrapped)


def test_wrappers_and_seeds_reach_through(registered: str) -> None:
    env = gymnasium.make(registered, max_episode_steps=3)
    first, info = env.reset(seed=5)
    assert info == {"steps": 0}
    expected = np.random.default_rng(5).uniform(-1, 1, 2).astype(np.float32)
    np.testing.assert_array_equal(first["wind"], expected)
    ends = [env.step(1)[2:4] for _ in range(3)]
    assert ends == [(False, False), (False, False), (False, True)]


def test_vector_environments_take_it(registered: str) -> None:
    envs = gymnasium.make_vec(registered, num_envs=2, vectorization_mode="sync")
    observations, _ = envs.reset(seed=3)
    assert observations["wind"].shape == (2, 2)
    observations, *_ = envs.step(envs.action_space.sample())
    assert observations["position"].shape == (2,)
    envs.close()


# -- spaces -----------------------------------------------------------------------------------


def test_spaces_are_those_of_the_models(env: TypedEnv) -> None:
    assert env.action_space == gs.Discrete(2)
    assert env.observation_space == gs.Dict(
        {"position": gs.Discrete(21, start=-10), "wind": gs.Box(-1, 1, (2,))}
    )


def test_instances_do_not_share_generators(env: TypedEnv) -> None:
    other = TypedEnv(Corridor())
    env.action_space.seed(1)
    alone = [env.action_space.sample() for _ in range(20)]
    env.action_space.seed(1)
    other.action_space.seed(2)
    mixed = []
    for _ in range(20):
        mixed.append(env.action_space.sample())
        other.action_space.sample()
    assert mixed == alone


def test_models_of_the_instance_count() -> None:
    class Wide(Corridor):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.observation_model = create_model(
                "WidePlace", __base__=Place, position=(int, Field(ge=-width, le=width))
            )

    for width in (3, 5):
        space = TypedEnv(Wide(width)).observation_space
        assert isinstance(space, gs.Dict)
        assert space["position"] == gs.Discrete(2 * width + 1, start=-width)


def test_an_environment_without_models_is_refused() -> None:
    class Bare(Environment[Any, Any, Any]):
        action_model = Walk

    with pytest.raises(ConfigurationError, match="Bare has no `observation_model`") as caught:
        TypedEnv(Bare())
    assert caught.value.field == "observation_model"


def test_a_model_that_no_space_holds_is_refused() -> None:
    class Odd(Corridor):
        action_model = create_model("OddAction", __base__=Walk, parts=(list[Any], ...))  # type: ignore[assignment]

    for use in (lambda: TypedEnv(Odd()), lambda: create_app(Odd)):  # long before anybody connects
        with pytest.raises(SpaceError, match=r"OddAction\.parts") as caught:
            use()
        assert caught.value.field == "OddAction.parts[*]" and caught.value.hint


# -- steps ------------------------------------------------------------------------------------


def test_samples_go_in_and_out(env: TypedEnv, corridor: Corridor) -> None:
    observation, info = env.reset(seed=1)
    assert observation in env.observation_space
    assert type(observation["position"]) is np.int64
    observation, reward, terminated, truncated, info = env.step(np.int64(1))
    assert corridor.position == 1 and observation["position"] == 1
    assert (reward, terminated, truncated, info) == (0.0, False, False, {"steps": 1})
    assert type(terminated) is bool and type(truncated) is bool


@pytest.mark.parametrize("reward", [True, 3, 2.5, -1])
def test_a_reward_keeps_its_type(env: TypedEnv, corridor: Corridor, reward: Any) -> None:
    env.reset()
    corridor.reward = reward
    got = env.step(0)[1]
    assert got == reward and type(got) is type(reward)


def test_no_reward_is_zero(env: TypedEnv) -> None:
    env.reset()
    got = env.step(0)[1]
    assert got == 0.0 and type(got) is float


def test_an_end_is_told_from_a_cut(env: TypedEnv) -> None:
    env.reset()
    ends = [env.step(1)[2:4] for _ in range(10)]
    assert ends[-2:] == [(False, False), (True, False)]
    env.reset()
    ends = [env.step(i % 2)[2:4] for i in range(20)]
    assert ends[-2:] == [(False, False), (False, True)]


def test_flags_are_booleans_even_where_nothing_was_validated(corridor: Corridor) -> None:
    wind = np.zeros(2, np.float32)
    fields: dict[str, Any] = {"position": 0, "wind": wind, "metadata": {}}
    place = Place.model_construct(done=np.bool_(True), truncated=np.bool_(False), **fields)
    corridor.step = lambda action: place  # type: ignore[method-assign]
    _, _, terminated, truncated, _ = TypedEnv(corridor).step(0)
    assert terminated is True and truncated is False


def test_options_and_no_options_reach_the_environment(env: TypedEnv, corridor: Corridor) -> None:
    env.reset(options={"a": 1})
    assert corridor.options == {"a": 1}
    env.reset()
    assert corridor.options is None


def test_info_is_a_copy(env: TypedEnv, corridor: Corridor) -> None:
    place = corridor.reset()
    corridor.reset = lambda **kwargs: place  # type: ignore[method-assign]
    _, info = env.reset()
    info["mine"] = 1
    assert place.metadata == {"steps": 0}


@pytest.mark.parametrize("action", [2, -1, "left", 1.0, None, np.zeros(2)])
def test_actions_outside_never_reach_the_environment(
    env: TypedEnv, corridor: Corridor, action: Any
) -> None:
    env.reset()
    with pytest.raises(InvalidActionError) as caught:
        env.step(action)
    assert caught.value.field == "direction"
    assert corridor.position == 0


@pytest.mark.parametrize("returned", [None, 3, Observation()])
def test_an_environment_that_returns_something_else_is_told_so(returned: Any) -> None:
    corridor = Corridor()
    env = TypedEnv(corridor)
    corridor.step = lambda action: returned  # type: ignore[method-assign]
    corridor.reset = lambda **kwargs: returned  # type: ignore[method-assign]
    with pytest.raises(TypeError, match=r"Corridor\.step returned a .*, expected a Place"):
        env.step(0)
    with pytest.raises(TypeError, match=r"Corridor\.reset returned a .*, expected a Place"):
        env.reset()


# -- attributes -------------------------------------------------------------------------------


def test_render_and_its_mode_are_the_environments() -> None:
    env = TypedEnv(Corridor(render_mode="ansi"))
    env.reset()
    assert env.render_mode == "ansi" and env.render() == "at 0"
    env.render_mode = "rgb_array"
    assert env.environment.render_mode == "rgb_array"
    assert env.render().shape == (4, 4, 3)


def test_metadata_is_a_copy_with_render_modes(env: TypedEnv) -> None:
    assert env.metadata == Corridor.metadata
    env.metadata["render_modes"].append("human")
    assert Corridor.metadata["render_modes"] == ["ansi", "rgb_array"]

    class Modest(Corridor):
        metadata: ClassVar[dict[str, Any]] = {}

    assert TypedEnv(Modest()).metadata == {"render_modes": []}


def test_close_reaches_the_environment_once(env: TypedEnv, corridor: Corridor) -> None:
    env.close()
    env.close()
    assert corridor.closed == 1


def test_the_target_is_the_environments_choice(env: TypedEnv, corridor: Corridor) -> None:
    assert env.environment is corridor and env.remote_target is corridor

    class Pointing(Corridor):
        remote_target = property(lambda self: "elsewhere")

    assert TypedEnv(Pointing()).remote_target == "elsewhere"


def test_the_generator_is_the_environments(env: TypedEnv, corridor: Corridor) -> None:
    assert env._np_random is None and env._np_random_seed is None
    env.reset(seed=9)
    assert env.np_random is corridor.np_random is env._np_random
    assert env.np_random_seed == corridor.np_random_seed == 9 == env._np_random_seed

    mine = np.random.default_rng(1)
    env.np_random = mine
    assert corridor.np_random is mine and corridor.np_random_seed == -1
    env.np_random_seed = 4
    assert corridor.np_random_seed == 4
    other = np.random.default_rng(2)
    env._np_random, env._np_random_seed = other, 2
    assert corridor._np_random is other and corridor._np_random_seed == 2
    corridor.np_random = mine
    assert env.np_random is mine and env.np_random_seed == -1


def test_it_shows_what_it_presents(env: TypedEnv) -> None:
    assert str(env) == "<TypedEnv<Corridor>>"
