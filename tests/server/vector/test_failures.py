"""Exceptions of sub-environments: who it was, and that the session goes on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from openenv_gym import errors
from tests.server.conftest import Site
from tests.server.vector.conftest import MODES, CountEnv, Wire, drive


def set_fails(ours: Any, *what: Any) -> None:
    ours("set", "fails", list(what))


@pytest.mark.parametrize("mode", MODES)
def test_a_step_that_raises(mode: AutoresetMode) -> None:
    ours = drive(CountEnv, 4, mode, first=20)
    ours("reset", None)
    set_fails(ours, None, "step", None, "step")
    with pytest.raises(errors.EnvironmentFailedError, match="not this one") as raised:
        ours("step", np.array([1, 1, 1, 1]))
    assert raised.value.data == {"type": "ValueError", "index": 23, "indices": [21, 23]}
    set_fails(ours, None, None, None, None)
    # The others have done their part.
    assert ours("call", "count", [], {}) == [1, 0, 1, 0]
    observations, infos = ours("reset", None, None, np.array([False, True, False, True]))
    assert observations.tolist() == [[1, 1], [2, 0], [1, 1], [2, 0]]
    assert infos["_episode"].tolist() == [False, True, False, True]
    assert ours("step", np.array([1, 1, 1, 1]))[0][:, 1].tolist() == [2, 1, 2, 1]
    ours("reset", None)
    assert ours("step", np.array([1, 1, 1, 1]))[0][:, 1].tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("mode", MODES)
def test_the_error_tells_whose_episodes_ended_in_the_step(mode: AutoresetMode) -> None:
    ours = drive(CountEnv, 3, mode, first=20, options={"length": 2})
    ours("reset", None)
    ours("step", np.array([1, 1, 1]))
    ours("reset", None, None, np.array([False, False, True]))
    set_fails(ours, None, None, "step")
    with pytest.raises(errors.EnvironmentFailedError) as raised:
        ours("step", np.array([1, 1, 1]))
    assert raised.value.data["ended"] == [20, 21]
    set_fails(ours, None, None, None)
    if mode is AutoresetMode.DISABLED:
        with pytest.raises(errors.ResetNeededError):
            ours("step", np.array([1, 1, 1]))
        return
    # They go on as the mode says: in the next step, or in this one, there are new episodes.
    expected = [0, 0, 1] if mode is AutoresetMode.NEXT_STEP else [1, 1, 1]
    assert ours("step", np.array([1, 1, 1]))[0][:, 1].tolist() == expected
    # One that was reset in a step that raises has been reset.
    set_fails(ours, None, None, "step")
    with pytest.raises(errors.EnvironmentFailedError):
        ours("step", np.array([1, 1, 1]))


def test_a_reset_that_raises() -> None:
    ours = drive(CountEnv, 3)
    set_fails(ours, None, "reset", None)
    with pytest.raises(errors.EnvironmentFailedError, match="no reset today") as raised:
        ours("reset", [1, 2, 3])
    assert raised.value.data["index"] == 1
    set_fails(ours, None, None, None)
    with pytest.raises(errors.ResetNeededError):
        ours("step", np.array([1, 1, 1]))
    observations, _ = ours("reset", None, None, np.array([False, True, False]))
    assert observations.tolist() == [[1, 0], [1, 0], [1, 0]]
    assert ours("step", np.array([1, 1, 1]))[0][:, 1].tolist() == [1, 1, 1]


def test_a_reset_that_raises_in_the_step_of_the_end() -> None:
    ours = drive(CountEnv, 2, AutoresetMode.SAME_STEP, options={"length": 1})
    ours("reset", None)
    set_fails(ours, None, "reset")
    with pytest.raises(errors.EnvironmentFailedError) as raised:
        ours("step", np.array([1, 1]))
    assert raised.value.data["indices"] == [1]
    set_fails(ours, None, None)
    ours("reset", None, None, np.array([False, True]))
    assert ours("step", np.array([1, 1]))[2].all()


def test_sys_exit_is_contained(site: Site) -> None:
    site.start(CountEnv)
    ours = Wire(site.client(), num_envs=2, first=3)
    ours("reset", None)
    set_fails(ours, "exit", None)
    error = ours("step", np.array([1, 1]))
    assert error["code"] == "environment_failed"
    assert error["data"] == {"type": "SystemExit", "index": 3, "indices": [3]}
    set_fails(ours, None, None)
    assert ours("reset", None)[0].shape == (2, 2)


def test_tracebacks_in_debug_mode(site: Site) -> None:
    site.start(CountEnv, debug=True)
    ours = Wire(site.client(), num_envs=2)
    ours("reset", None)
    set_fails(ours, None, "step")
    error = ours("step", np.array([1, 1]))
    assert "raise ValueError" in error["data"]["traceback"] and error["data"]["index"] == 1


class ShapelessEnv(CountEnv):
    """Returns what its space, or an array of numbers, does not take."""

    def step(self, action: Any) -> Any:
        observation, reward, *rest, info = super().step(action)
        if action == 7:
            observation = np.zeros(3, np.int64)
        if action == 8:
            reward = "much"
        info = {"shape": np.zeros(2 if action == 9 else 3)}
        return observation, reward, *rest, info


@pytest.mark.parametrize(
    ("action", "name"), [(7, "ValueError"), (8, "ValueError"), (9, "ValueError")]
)
def test_what_cannot_be_batched_is_somebodys(action: int, name: str) -> None:
    ours = drive(ShapelessEnv, 3)
    ours("reset", None)
    with pytest.raises(errors.EnvironmentFailedError) as raised:
        ours("step", np.array([1, 1, action]))
    assert raised.value.data == {"type": name, "index": 2, "indices": [2]}
    ours("reset", None)
    assert ours("step", np.array([1, 1, 1]))[0][:, 1].tolist() == [1, 1, 1]


def test_a_step_that_returns_something_else() -> None:
    class OldEnv(CountEnv):
        def step(self, action: Any) -> Any:
            return super().step(action)[:4]

    ours = drive(OldEnv, 1)
    ours("reset", None)
    with pytest.raises(errors.EnvironmentFailedError, match="unpack") as raised:
        ours("step", np.array([1]))
    assert raised.value.data["index"] == 0
