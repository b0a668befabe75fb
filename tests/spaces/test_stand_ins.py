"""Spaces of foreign classes: what stands for them, and what is refused."""

from __future__ import annotations

import string
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from openenv_gym import errors
from openenv_gym.server import Application
from openenv_gym.spaces import carried_space, register_space, space_from_data, space_to_data
from openenv_gym.spaces import stand_ins as module
from tests.support.serving import serving


class Named(spaces.Box):
    """Has a name, and is else a Box."""

    def __init__(self, name: str, *args: Any, **kwargs: Any) -> None:
        self.name = name
        super().__init__(*args, **kwargs)


class Even(spaces.Discrete):  # type: ignore[type-arg]
    """Draws even numbers."""

    def sample(self, mask: Any = None, probability: Any = None) -> Any:
        return 2 * (super().sample() // 2)


class Mission(gymnasium.Space[str]):
    """As MiniGrid's: texts that a function makes."""

    def __init__(self) -> None:
        super().__init__(dtype=str)

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        return "get to the door"

    def contains(self, x: Any) -> bool:
        return x == "get to the door"


class Heat(gymnasium.Space[Any]):
    def __init__(self, dtype: Any = np.float32) -> None:
        super().__init__((2, 3), dtype)

    def sample(self, mask: Any = None, probability: Any = None) -> Any:
        return np.ones(self.shape, self.dtype)

    def contains(self, x: Any) -> bool:
        return isinstance(x, np.ndarray)


class Opaque(gymnasium.Space[Any]):
    """Says nothing of itself."""


class Bag(spaces.Dict):  # type: ignore[type-arg]
    """A Dict by another name."""


@pytest.fixture
def registry() -> Iterator[None]:
    before = dict(module._registered)
    yield
    module._registered.clear()
    module._registered.update(before)


def _seen(space: gymnasium.Space[Any]) -> gymnasium.Space[Any]:
    return carried_space(space, "observation_space", observed=True)[0]


@pytest.mark.parametrize(
    "space",
    [
        spaces.Dict({"a": spaces.Box(0, 1, (2,)), "b": spaces.Tuple([spaces.Text(4)])}),
        spaces.Sequence(spaces.Discrete(3)),
        spaces.Graph(spaces.Box(0, 1, (2,)), None),
        spaces.OneOf([spaces.Discrete(2), spaces.MultiBinary(3)]),
    ],
)
@pytest.mark.parametrize("observed", [True, False])
def test_what_can_be_carried_is_left_alone(space: Any, observed: bool) -> None:
    carried, told = carried_space(space, "space", observed=observed)
    assert carried is space and told == {}


def test_who_draws_as_its_base_does_is_carried_to_the_bit() -> None:
    inner = Named("speed", -1, 1, (3,), np.float64)
    space = spaces.Dict({"go": spaces.Tuple([inner, inner]), "n": Bag({"k": spaces.Discrete(5)})})
    carried, told = carried_space(space, "action_space", observed=False)
    assert told == {
        "action_space['go'][0]": f"{__name__}.Named",
        "action_space['n']": f"{__name__}.Bag",
    }
    carried = space_from_data(space_to_data(carried))  # as a client gets it
    assert carried["go"][0] is carried["go"][1]  # one generator, as before
    for each in (space, carried):
        each.seed(3)
    for _ in range(5):
        one, other = space.sample(), carried.sample()
        assert np.array_equal(one["go"], other["go"]) and one["n"] == other["n"]


def test_what_is_observed_has_a_wider_space() -> None:
    text = _seen(Mission())
    assert isinstance(text, spaces.Text) and text.contains("get to the door")
    assert set(text.characters) == set(string.printable)
    for dtype in (np.float32, np.int16, np.bool_):
        box = _seen(Heat(dtype))
        assert (box.shape, box.dtype) == ((2, 3), dtype) and box.contains(Heat(dtype).sample())
    even = _seen(Even(6))
    assert type(even) is spaces.Discrete and even.n == 6
    inside = _seen(spaces.Graph(Heat(), None))
    assert isinstance(inside, spaces.Graph) and isinstance(inside.node_space, spaces.Box)
    rows = _seen(spaces.Sequence(Mission()))
    assert isinstance(rows, spaces.Sequence) and isinstance(rows.feature_space, spaces.Text)


@pytest.mark.parametrize("space", [Even(6), Mission(), Heat(), Opaque()])
def test_nobody_draws_actions_that_are_not_taken(space: Any) -> None:
    with pytest.raises(errors.SpaceError, match="register_space") as caught:
        carried_space(spaces.Dict({"move": space}), "action_space", observed=False)
    assert caught.value.field == "action_space['move']"


def test_a_space_that_says_nothing_is_refused() -> None:
    with pytest.raises(errors.SpaceError, match=r"Opaque.*dtype and shape"):
        _seen(Opaque())


def test_an_author_says_what_stands_for_it(registry: None) -> None:
    register_space(Even, lambda space: spaces.Discrete(int(space.n) // 2))
    carried, told = carried_space(Even(6), "action_space", observed=False)
    assert carried == spaces.Discrete(3) and told == {"action_space": f"{__name__}.Even"}
    register_space(gymnasium.Space, lambda space: space)  # of the class that cannot be carried
    with pytest.raises(errors.SpaceError, match="cannot be sent"):
        _seen(Mission())
    register_space(Mission, lambda space: None)  # type: ignore[arg-type, return-value]
    with pytest.raises(errors.SpaceError, match="no space"):
        _seen(Mission())


class World(gymnasium.Env[Any, Any]):
    def __init__(self) -> None:
        self.action_space = Named("push", -1, 1, (1,))
        self.observation_space = spaces.Dict({"mission": Mission(), "at": spaces.Discrete(9)})

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return {"mission": "get to the door", "at": 0}, {}

    def step(self, action: Any) -> Any:
        return {"mission": "get to the door", "at": 1}, float(action[0]), False, False, {}


def test_such_an_environment_is_served() -> None:
    with serving(Application(World, name="world")) as url:
        env = gymnasium.make("openenv/Remote-v0", base_url=url)
        seen, _ = env.reset(seed=1)
        assert seen in env.observation_space and seen["mission"] == "get to the door"
        env.action_space.seed(4)
        local = Named("push", -1, 1, (1,))
        local.seed(4)
        action = env.action_space.sample()
        assert action == local.sample()
        assert env.step(action)[1] == pytest.approx(float(action[0]))
        told = env.unwrapped.openenv.connection.environment["stand_ins"]  # type: ignore[attr-defined]
        assert set(told) == {"action_space", "observation_space['mission']"}
        env.close()
        envs = gymnasium.make_vec("openenv/Remote-v0", num_envs=2, base_url=url)
        seen, _ = envs.reset(seed=1)
        assert seen["mission"] == ("get to the door",) * 2 and seen in envs.observation_space
        envs.step(envs.action_space.sample())
        envs.close()
