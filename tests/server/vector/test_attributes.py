"""Attributes and methods of sub-environments."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv

from openenv_gym import errors
from openenv_gym.protocol.generators import make_generator
from openenv_gym.server import load_app
from openenv_gym.server.gymnasium_app import app as gymnasium_app
from tests.server.conftest import Site
from tests.server.vector.conftest import CountEnv, Wire, drive


def test_values_and_methods() -> None:
    ours = drive(CountEnv, 2, options={"render_mode": "rgb_array"})
    ours("reset", None)
    ours("step", np.array([1, 1]))
    assert ours("call", "count", [], {}) == [1, 1]
    assert ours("call", "add", [2], {"b": 3}) == [6, 6]
    assert ours("call", "render_mode", [], {}) == ["rgb_array"] * 2
    frames = ours("call", "render", [], {})
    assert len(frames) == 2 and frames[0].tolist() == ours("render")[0].tolist()


def test_attributes_of_wrappers_as_gymnasium_finds_them() -> None:
    options = {"env_id": "CartPole-v1"}
    ours = drive(gymnasium_app, 2, options=options)
    theirs: Any = SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")] * 2)
    ours("reset", [1, 2])
    theirs.reset(seed=1)
    for name in ("_elapsed_steps", "gravity", "length", "x_threshold", "np_random_seed"):
        assert tuple(ours("call", name, [], {})) == theirs.get_attr(name), name
    ours("set", "gravity", [1.0, 2.0])
    ours("set", "brand_new", [[1], "x"])
    assert ours("call", "gravity", [], {}) == [1.0, 2.0]
    assert ours("call", "brand_new", [], {}) == [[1], "x"]
    theirs.set_attr("gravity", [1.0, 2.0])
    actions = np.array([0, 1])
    assert np.array_equal(ours("step", actions)[0], theirs.step(actions)[0])
    theirs.close()


def test_generators() -> None:
    ours = drive(gymnasium_app, 2, options={"env_id": "Blackjack-v1"})
    theirs: Any = SyncVectorEnv([lambda: gymnasium.make("Blackjack-v1")] * 2)
    ours("reset", [5, 6])
    theirs.reset(seed=5)
    found = ours("call", "np_random", [], {})
    for one, generator, seed in zip(found, theirs.np_random, (5, 6), strict=True):
        assert one["seed"] == seed
        assert make_generator(one["state"]).random() == generator.random()


@pytest.mark.parametrize(
    "name", ["reset", "step", "close", "_setattr", "_check_spaces", "__class__"]
)
def test_refused_names(site: Site, name: str) -> None:
    ours = drive(CountEnv, 1)
    text = f"Trying to call function `{name}` with `call`, use `{name}` directly instead."
    with pytest.raises(ValueError) as refused:
        ours("call", name, [], {})
    assert str(refused.value) == text
    site.start(CountEnv)
    error = Wire(site.client(), num_envs=1)("call", name, [], {})
    assert (error["code"], error["message"]) == ("environment_failed", text)
    assert error["data"]["type"] == "ValueError"


def test_missing_attributes_and_values_that_cannot_travel() -> None:
    ours = drive(CountEnv, 2, first=30)
    ours("reset", None)
    with pytest.raises(errors.EnvironmentFailedError, match="nothing") as raised:
        ours("call", "nothing", [], {})
    assert raised.value.data == {"type": "AttributeError", "index": 31, "indices": [30, 31]}
    with pytest.raises(errors.EnvironmentFailedError, match="get_space.*31.*Discrete") as raised:
        ours("call", "get_space", [], {})
    assert raised.value.data == {"type": "TypeError", "index": 31, "indices": [30, 31]}
    with pytest.raises(errors.EnvironmentFailedError) as raised:
        ours("call", "add", ["x"], {})
    assert raised.value.data["type"] == "TypeError"


@pytest.mark.parametrize(
    ("op", "args", "field"),
    [
        ("call", [1, [], {}], "name"),
        ("call", ["count", 1, {}], "args"),
        ("call", ["count", [], []], "args"),
        ("set", ["__class__", [1, 2]], "name"),
        ("set", ["count", [1]], "values"),
        ("set", ["count", 1], "values"),
        ("reset", [1], "seeds"),
        ("reset", [[1]], "seeds"),
        ("reset", [[1, 2.5]], "seeds"),
        ("reset", [[True, 1]], "seeds"),
        ("reset", [None, 3], "options"),
        ("reset", [None, None, [True, True]], "mask"),
        ("reset", [None, None, np.array([1, 1])], "mask"),
        ("reset", [None, None, np.array([True])], "mask"),
        ("fly", [], "op"),
        ("observe", [["count"]], "op"),
        ("step", [], "args"),
        ("step", [1, 2, 3], "args"),
    ],
)
def test_arguments_of_the_wrong_form(op: str, args: list[Any], field: str) -> None:
    ours = drive(CountEnv, 2)
    ours("reset", None)
    with pytest.raises(errors.ProtocolError) as refused:
        ours(op, *args)
    assert refused.value.field == field
    assert ours("step", np.array([1, 1]))[0][:, 1].tolist() == [1, 1]


def test_a_typed_environment() -> None:
    ours = drive(load_app("echo_env"), 2, own_limit=False, max_episode_steps=5)
    ours("reset", [1, 2])
    ours("step", ("a", "bc"))
    assert ours("call", "_message", [], {}) == ["a", "bc"]
    assert ours("call", "_elapsed_steps", [], {}) == [1, 1]
    assert ours("call", "np_random_seed", [], {}) == [1, 2]
    ours("set", "_message", ["x", "y"])
    assert ours("call", "_message", [], {}) == ["x", "y"]
    assert ours("call", "metadata", [], {})[0]["render_modes"] == ["ansi"]
    ours.close()


class NumbersEnv(CountEnv):
    """Tells numbers only."""

    def reset(self, **kwargs: Any) -> Any:
        return super().reset(**kwargs)[0], {"episode": self.episode}


def test_masks_that_are_true_everywhere_are_short(site: Site) -> None:
    site.start(NumbersEnv)
    wire = Wire(site.client(), num_envs=3)
    infos = wire("reset", None)[1]
    assert list(infos) == ["episode", "_episode"]
    assert infos["_episode"] is True
    assert infos["episode"].tolist() == [1, 1, 1]
