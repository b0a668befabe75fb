"""Attributes of an environment that is elsewhere."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest

from openenv_gym import errors
from openenv_gym.env import RemoteEnv
from openenv_gym.server.host import EnvironmentHost
from tests.support.worlds import CountingEnv, ThingsEnv


def hosted(name: str, **kwargs: Any) -> gymnasium.Env[Any, Any]:
    return gymnasium.make(f"openenv/{name}", provider="thread", **kwargs)


# -- attributes -------------------------------------------------------------------------------


def test_attributes_are_read_set_and_called_on_the_server() -> None:
    env = hosted("CartPole-v1")
    env.reset(seed=0)
    assert env.unwrapped.gravity == 9.8
    env.unwrapped.gravity = 5.0
    assert env.unwrapped.gravity == 5.0
    assert env.get_wrapper_attr("masspole") == 0.1
    env.set_wrapper_attr("masspole", 0.2)
    assert env.unwrapped.masspole == 0.2
    assert not hasattr(env.unwrapped, "nothing_of_the_sort")
    env.unwrapped.note = "mine"
    assert env.unwrapped.note == "mine"
    env.close()


def test_no_public_name_is_taken_from_the_environment() -> None:
    extra = {name for name in set(dir(RemoteEnv)) - set(dir(gymnasium.Env)) if name[:1] != "_"}
    assert extra == {"openenv", "timing"}
    env, local = hosted("CartPole-v1"), gymnasium.make("CartPole-v1")
    assert env.unwrapped.state is None
    env.reset(seed=0)
    local.reset(seed=0)
    assert np.array_equal(env.unwrapped.state, local.unwrapped.state)
    for one in (env, local):
        one.unwrapped.state = np.array([0.1, 0.2, 0.01, 0.3])
    assert (env.step(1)[0] == local.step(1)[0]).all()
    for name in ("save_state", "connection", "restore_state"):
        assert not hasattr(env.unwrapped, name)
    assert env.unwrapped.openenv.state()["step_count"] == 1
    for name in ("timing", "openenv"):
        with pytest.raises(AttributeError):
            setattr(env.unwrapped, name, 5)
    for name in ("_rng", "_viewer", "_timings", "_observed", "_methods", "_connection"):
        setattr(env.unwrapped, name, 5)
        assert getattr(env.unwrapped, name) == 5
    env.reset(seed=0)
    env.step(1)
    env.close()


def test_what_the_environment_does_not_have_yet_reaches_it(remote: Any) -> None:
    env = remote(ThingsEnv)
    env.flag = 5
    assert env.read_flag() == 5
    env.helper = print  # cannot be sent, so that it is the client's own
    assert env.helper is print
    env.helper = 7
    assert env.openenv.request("get", ["helper"]) == [0, 7]
    with pytest.raises(TypeError):
        env.flag = print
    env.render_mode = "mine"
    assert env.openenv.request("get", ["render_mode"]) == [0, None]


def test_values_arrive_as_values_and_objects_never_as_anything_else(remote: Any) -> None:
    env = remote(ThingsEnv)
    assert env.ordered == {"a": 1} and env.default == {"a": [1]} and env.pair == (1, 2)
    assert env.dollar == {"$ref": "method", "type": "x"}
    assert env.get_dollar() == {"$ref": "method", "type": "x"}
    assert env.thing.number == 3 and env.thing.double(4) == 8
    with pytest.raises(TypeError, match="cannot be sent"):
        env.get_thing()
    env.get_dollar = 5
    assert env.get_dollar == 5


def test_an_observed_getter_is_never_older_than_the_environment() -> None:
    env = gymnasium.make(
        "openenv/Atari-v0", game="breakout", provider="thread", disable_env_checker=True
    )
    env.reset(seed=1)
    assert env.unwrapped.ale.lives() == 5
    env.step(1)
    observed = env.unwrapped.openenv.observed
    assert observed.values == {"ale.lives": 5}
    with pytest.raises(errors.InvalidActionError):
        env.step(99)
    assert observed.values == {}
    assert env.unwrapped.ale.lives() == 5
    env.step(0)
    assert observed.values == {"ale.lives": 5}
    env.close()


def test_an_observed_attribute_is_a_value(remote: Any) -> None:
    env = remote(ThingsEnv, observables=("count", "read_flag"))
    env.reset()
    for count in range(5):
        assert env.count == count
        assert env.read_flag() is None
        env.step(0)
    before = env.openenv.connection.frames_sent
    assert env.count == 5 and env.read_flag() is None
    assert env.openenv.connection.frames_sent == before


def test_a_closed_environment_has_no_attributes_left(remote: Any) -> None:
    env = remote(ThingsEnv)
    assert hasattr(env, "count")
    env.close()
    assert not hasattr(env, "count")
    assert getattr(env, "count", None) is None


def test_metadata_that_cannot_be_sent_is_text(remote: Any) -> None:
    env = remote(ThingsEnv)
    assert env.metadata["render_modes"] == []
    assert env.metadata["thing"].startswith("<tests.support.worlds.Thing")


@pytest.mark.parametrize(
    ("op", "args"), [("observe", [[5]]), ("observe", [5]), ("call", ["reset", 5, {}])]
)
def test_arguments_of_the_wrong_form_are_the_callers_fault(op: str, args: list[Any]) -> None:
    with pytest.raises(errors.ProtocolError):
        EnvironmentHost(CountingEnv()).execute(op, args)


def test_no_path_leads_to_the_interpreter(remote: Any) -> None:
    env = remote(CountingEnv)
    for path in ("__class__", "reset.__globals__", "step.__func__.__code__", "", "a b", "1x"):
        with pytest.raises(errors.ProtocolError, match="leading double underscores"):
            env.openenv.connection.call("get", [path])
