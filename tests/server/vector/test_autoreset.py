"""Autoreset where Gymnasium's two implementations differ from each other, or from what is right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, VectorEnv

from openenv_gym import errors
from openenv_gym.server import load_app
from tests.server.vector.conftest import MODES, CountEnv, drive


def counts(observations: Any) -> list[int]:
    return observations[:, 1].tolist()  # type: ignore[no-any-return]


def step(ours: Any, *actions: int) -> Any:
    return ours("step", np.array(actions))


@pytest.mark.parametrize("mode", MODES)
def test_a_step_after_an_explicit_reset_counts(mode: AutoresetMode) -> None:
    ours = drive(CountEnv, 2, mode, options={"length": 2})
    ours("reset", None)
    step(ours, 1, 1)
    assert step(ours, 1, 1)[2].all()
    assert counts(ours("reset", None)[0]) == [0, 0]
    observations, rewards, *_ = step(ours, 3, 4)
    assert counts(observations) == [1, 1]
    assert rewards.tolist() == [3, 4]


def test_a_step_after_a_reset_of_some_counts_for_these() -> None:
    ours = drive(CountEnv, 3, options={"length": 2})
    ours("reset", None)
    step(ours, 1, 1, 1)
    step(ours, 1, 1, 1)
    observations, infos = ours("reset", None, None, np.array([False, True, False]))
    assert counts(observations) == [2, 0, 2]
    assert infos["_episode"].tolist() == [False, True, False]
    observations, rewards, *_ = step(ours, 5, 6, 7)
    assert counts(observations) == [0, 1, 0]
    assert rewards.tolist() == [0, 6, 0]


@pytest.mark.parametrize("actions", [[1, 2], [1, 2, 3, 4], [], 1, None, "xyz", {"a": 1}])
def test_a_wrong_number_of_actions_moves_nobody(actions: Any) -> None:
    ours = drive(CountEnv, 3)
    ours("reset", None)
    value = np.array(actions) if isinstance(actions, list) else actions
    with pytest.raises(errors.InvalidActionError, match=r"3|batch|actions"):
        ours("step", value)
    assert counts(step(ours, 1, 2, 3)[0]) == [1, 1, 1]


def test_a_wrong_action_moves_nobody() -> None:
    ours = drive(CountEnv, 3, first=4)
    ours("reset", None)
    with pytest.raises(errors.InvalidActionError, match=r"actions\[6\] is .*10") as refused:
        step(ours, -1, 1, 10)
    assert refused.value.data == {"index": 6, "indices": [4, 6]}
    assert counts(step(ours, 1, 2, 3)[0]) == [1, 1, 1]


def test_the_action_that_is_ignored_may_be_anything() -> None:
    ours = drive(CountEnv, 2, options={"length": 1})
    ours("reset", None)
    step(ours, 1, 1)
    observations, rewards, terminations, *_ = step(ours, 99, -1)
    assert counts(observations) == [0, 0]
    assert rewards.tolist() == [0, 0] and not terminations.any()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shape", [(1,), (3,), (2, 2)])
def test_rewards_that_are_arrays(mode: AutoresetMode, shape: tuple[int, ...]) -> None:
    ours = drive(CountEnv, 3, mode, options={"length": 2, "reward_shape": shape})
    ours("reset", None)
    assert step(ours, 1, 2, 3)[1].shape == (3, *shape)
    # From here on some are at the end when others are not.
    ours("reset", None, None, np.array([True, False, False]))
    for _ in range(4):
        result = step(ours, 1, 2, 3)
        assert result[1].shape == (3, *shape) and result[1].dtype == np.float64
        if mode is AutoresetMode.DISABLED:
            over = result[2]
            if over.any():
                ours("reset", None, None, over)
        elif mode is AutoresetMode.NEXT_STEP:
            fresh = result[0][:, 1] == 0
            assert not result[1][fresh].any() and result[1][~fresh].all()
    # All of them at once, where no reward tells the shape.
    if mode is AutoresetMode.NEXT_STEP:
        ours("reset", None)
        for _ in range(2):
            step(ours, 1, 2, 3)
        assert step(ours, 1, 2, 3)[1].shape == (3, *shape)


def test_what_is_final_never_changes() -> None:
    ours = drive(CountEnv, 2, AutoresetMode.SAME_STEP, options={"length": 2})
    ours("reset", None)
    step(ours, 1, 1)
    observations, _, terminations, _, infos = step(ours, 1, 1)
    assert terminations.all() and counts(observations) == [0, 0]
    for _ in range(3):
        assert [final.tolist() for final in infos["final_obs"]] == [[1, 2], [1, 2]]
        assert infos["final_info"]["told"].tolist() == [[1, 2], [1, 2]]
        assert infos["_final_obs"].all() and infos["_final_info"].all()
        assert counts(observations) == [0, 0]
        step(ours, 1, 1)


@pytest.mark.parametrize("mode", MODES)
def test_no_batch_is_written_to_again(mode: AutoresetMode) -> None:
    ours = drive(CountEnv, 2, mode, options={"length": 50})
    ours("reset", None)
    results = [step(ours, 1, 2) for _ in range(5)]
    masked = ours("reset", None, None, np.array([True, False]))[0]
    step(ours, 1, 2)
    assert [counts(result[0]) for result in results] == [[i, i] for i in range(1, 6)]
    assert counts(masked) == [0, 5]
    arrays = [array for result in results for array in result[:4]]
    for i, array in enumerate(arrays):
        assert not any(np.shares_memory(array, other) for other in arrays[i + 1 :])


def test_disabled_wants_a_reset_after_the_end() -> None:
    ours = drive(CountEnv, 3, AutoresetMode.DISABLED, options={"length": 2}, first=10)
    ours("reset", None)
    step(ours, 1, 1, 1)
    ours("reset", None, None, np.array([False, True, False]))
    assert step(ours, 1, 1, 1)[2].tolist() == [True, False, True]
    with pytest.raises(errors.ResetNeededError, match="10, 12") as refused:
        step(ours, 1, 1, 1)
    assert refused.value.data["indices"] == [10, 12]
    ours("reset", None, None, np.array([True, False, True]))
    assert counts(step(ours, 1, 1, 1)[0]) == [1, 2, 1]


def test_the_mode_is_nobody_elses() -> None:
    pytest.importorskip("ale_py")
    before = dict(VectorEnv.metadata)
    app = load_app("atari_env")
    options = {"game": "pong", "preprocess": True}
    same = drive(app, 1, AutoresetMode.SAME_STEP, options=options)
    next_ = drive(app, 1, AutoresetMode.NEXT_STEP, options=options)
    assert VectorEnv.metadata == before
    modes = [ours.host.describe()["vector"]["autoreset_mode"] for ours in (same, next_)]
    assert modes == ["SameStep", "NextStep"]
    assert "autoreset_mode" not in same.host.describe()["metadata"]
    same.close()
    next_.close()


def test_a_step_before_reset() -> None:
    ours = drive(CountEnv, 2)
    with pytest.raises(errors.ResetNeededError, match="0, 1"):
        step(ours, 1, 1)
    with pytest.raises(errors.ResetNeededError, match="reset with a mask"):
        ours("reset", None, None, np.array([True, False]))
    with pytest.raises(errors.ResetNeededError):
        ours("render")
    ours("reset", None, None, np.array([True, True]))
    assert counts(step(ours, 1, 1)[0]) == [1, 1]
