"""Exceptions of sub-environments, and what is refused before any of them moves."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from openenv_gym import RemoteVectorEnv, errors
from openenv_gym.server.vector import VectorHost
from openenv_gym.server.vector.engine import SubEnvironments
from tests.vector.worlds import CountEnv, Fleet, WorldEnv, still


@pytest.mark.parametrize("num_servers", [1, 2, 4])
def test_an_exception_names_its_sub_environment(
    fleet: Callable[..., Fleet], num_servers: int
) -> None:
    env = fleet(WorldEnv, 4, num_servers).env
    env.reset(seed=1)
    with pytest.raises(ValueError, match="one is not for me at 0") as caught:
        env.step(still(env, [0, 0, 0, 1]))
    assert isinstance(caught.value, errors.EnvironmentFailedError)
    assert caught.value.type_name == "ValueError"
    assert caught.value.data["index"] == 3
    assert caught.value.data["indices"] == [3]
    # The others did their part; all can be used (upstream, the one that failed cannot: B4).
    assert env.step(still(env))[4]["count"].tolist() == [2, 2, 2, 1]
    with pytest.raises(ValueError, match="at 2") as caught:
        env.step(still(env, [1, 0, 1, 0]))
    assert caught.value.data["indices"] == [0, 2]
    with pytest.raises(KeyError, match="no such option"):
        env.reset(options={"fail": True})
    with pytest.raises(RuntimeError, match="failed as asked") as error:
        env.call("fail")
    assert error.value.data["indices"] == [0, 1, 2, 3]  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="nope"):
        env.call("nope")
    env.reset(seed=1)
    assert env.step(still(env))[4]["count"].tolist() == [1, 1, 1, 1]


def test_tracebacks_are_logged_where_they_are_known() -> None:
    env = RemoteVectorEnv([CountEnv] * 3)
    env.reset()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(ValueError, match="below zero"):
            env.step([0, -1, -1])
    # Gymnasium's logger warns of nothing else; the collector may, of what other tests have left.
    texts = [str(each.message) for each in caught if issubclass(each.category, UserWarning)]
    assert len(texts) == 5
    for place, index in ((0, 1), (2, 2)):
        assert f"Received the following error from Worker-{index}" in texts[place]
        assert "ValueError: below zero\n" in texts[place + 1]
        assert "in step" in texts[place + 1]
    assert "Raising the last exception back to the main process." in texts[4]
    assert env.step([0, 0, 0])[1].tolist() == [2, 1, 1]
    env.close()


@pytest.mark.parametrize("num_servers", [1, 2, 3])
@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_what_follows_a_step_that_raised_does_not_depend_on_the_split(
    fleet: Callable[..., Fleet], mode: AutoresetMode, num_servers: int
) -> None:
    env = fleet(CountEnv, 6, num_servers, options={"length": 2}, autoreset_mode=mode).env
    env.reset(seed=1)
    env.step(np.zeros(6, np.int64))
    with pytest.raises(ValueError, match="below zero") as caught:
        env.step(np.array([0, -1, 0, 0, 0, 0]))
    assert caught.value.data["indices"] == [1]  # type: ignore[attr-defined]
    assert caught.value.data["ended"] == [0, 2, 3, 4, 5]  # type: ignore[attr-defined]
    if mode is AutoresetMode.DISABLED:
        with pytest.raises(errors.ResetNeededError) as refused:
            env.step(np.zeros(6, np.int64))
        assert refused.value.data["indices"] == [0, 2, 3, 4, 5]
        assert env.call("count") == (2, 1, 2, 2, 2, 2)  # nobody has moved
        return
    counts = [0, 2, 0, 0, 0, 0] if mode is AutoresetMode.NEXT_STEP else [1, 0, 1, 1, 1, 1]
    assert env.step(np.zeros(6, np.int64))[0][:, 0].tolist() == counts


def test_a_server_may_name_nobody_but_its_own(
    fleet: Callable[..., Fleet], monkeypatch: pytest.MonkeyPatch
) -> None:
    env = fleet(CountEnv, 4, 2).env
    env.reset(seed=1)
    for told in ([0, 99, -1, "x", None, 3], 7, {"a": 1}):

        def fail(self: SubEnvironments, actions: Any, told: Any = told) -> Any:
            raise errors.EnvironmentFailedError("No.", data={"indices": told, "ended": told})

        with monkeypatch.context() as patch:
            patch.setattr(SubEnvironments, "step", fail)
            with pytest.raises(errors.EnvironmentFailedError) as caught:
                env.step(np.zeros(4, np.int64))
        expected = {"indices": [0, 3], "ended": [0, 3]} if isinstance(told, list) else {}
        found = {key: caught.value.data.get(key) for key in expected}
        assert found == expected
    assert env.step(np.zeros(4, np.int64))[1].tolist() == [1.0] * 4


@pytest.mark.parametrize("num_servers", [1, 2])
def test_actions_are_counted_before_they_are_sent(
    fleet: Callable[..., Fleet], num_servers: int
) -> None:
    """Upstream, some sub-environments have made their step when too few are noticed (B3)."""
    env = fleet(CountEnv, 4, num_servers).env
    env.reset(seed=0)
    wrong: list[Any] = [
        np.zeros(3, int),
        np.zeros(5, int),
        [0, 0],
        np.zeros((4, 1), int),
        np.array(["a"] * 4),
        [0, 0, 0, [1]],
    ]
    for actions in wrong:
        with pytest.raises(errors.InvalidActionError, match="Expected actions"):
            env.step(actions)
    for actions in (0, np.int64(3), None):
        with pytest.raises((TypeError, errors.InvalidActionError)):
            env.step(actions)
    observations, rewards, *_ = env.step([0, 0, 0, 0])
    assert observations[:, 0].tolist() == [1] * 4 and rewards.tolist() == [1] * 4


@pytest.mark.parametrize("num_servers", [1, 2])
def test_nested_actions_are_checked(fleet: Callable[..., Fleet], num_servers: int) -> None:
    env = fleet(WorldEnv, 2, num_servers).env
    env.reset(seed=0)
    good = still(env)
    for wrong in (
        {"what": good["what"]},
        {**good, "more": 1},
        {**good, "force": np.zeros((2, 3), np.float32)},
        {**good, "what": [0]},
        [good, good],
    ):
        with pytest.raises(errors.InvalidActionError, match="Expected actions"):
            env.step(wrong)
    assert env.step(good)[4]["count"].tolist() == [1, 1]
    assert env.step({**good, "what": [0, 0]})[4]["count"].tolist() == [2, 2]


def test_a_server_without_vector_sessions(fleet: Callable[..., Fleet]) -> None:
    from openenv_gym.vector.member import check_vector_session

    class Old:
        address = "old"
        environment: dict[str, Any] = {}

    with pytest.raises(errors.VersionMismatchError, match="knows no vector sessions"):
        check_vector_session(Old())  # type: ignore[arg-type]


LIES: list[tuple[str, Any]] = [
    ("nothing", None),
    ("a map", {}),
    ("too few", [np.zeros((2, 4))]),
    ("no observations", [None, np.zeros(2), np.zeros(2, bool), np.zeros(2, bool), {}]),
    ("one observation", [np.zeros(4), np.zeros(2), np.zeros(2, bool), np.zeros(2, bool), {}]),
    ("one row", [np.zeros((1, 4)), np.zeros(2), np.zeros(2, bool), np.zeros(2, bool), {}]),
    (
        "complex numbers",
        [np.zeros((2, 4), complex), np.zeros(2), np.zeros(2, bool), np.zeros(2, bool), {}],
    ),
    ("rewards", [np.zeros((2, 4)), np.zeros(3), np.zeros(2, bool), np.zeros(2, bool), {}]),
    ("ends", [np.zeros((2, 4)), np.zeros(2), np.zeros(2), np.zeros(2, bool), {}]),
    ("infos", [np.zeros((2, 4)), np.zeros(2), np.zeros(2, bool), np.zeros(2, bool), []]),
]


@pytest.mark.parametrize("num_servers", [1, 2])
@pytest.mark.parametrize("value", [value for _, value in LIES], ids=[name for name, _ in LIES])
def test_a_server_that_answers_nonsense(
    fleet: Callable[..., Fleet], monkeypatch: pytest.MonkeyPatch, value: Any, num_servers: int
) -> None:
    env = fleet(CountEnv, 2 * num_servers, num_servers).env
    env.reset(seed=1)
    with monkeypatch.context() as patch:
        patch.setattr(SubEnvironments, "step", lambda self, actions: value)
        patch.setattr(VectorHost, "_slim", lambda self, results: results)
        with pytest.raises(errors.ProtocolError, match=r"answered step with .*, expected"):
            env.step(np.zeros(2 * num_servers, np.int64))
    assert env.step(np.zeros(2 * num_servers, np.int64))[1].tolist() == [1.0] * 2 * num_servers
