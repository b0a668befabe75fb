"""send and recv: each sub-environment on its own."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from openenv_gym import errors
from openenv_gym.server.gymnasium_app import app as gymnasium_app
from openenv_gym.server.vector.partial import MAX_THREADS
from tests.server.conftest import Site
from tests.server.vector.conftest import MODES, CountEnv, Wire, drive
from tests.spaces.compare import assert_identical
from tests.support.waiting import eventually


def indices(*found: int) -> Any:
    return np.array(found, np.int64)


def threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "openenv-vector"}


class GateEnv(CountEnv):
    """A step with action 9 waits until the test lets it go."""

    gate = threading.Event()
    closed = threading.Semaphore(0)

    def step(self, action: Any) -> Any:
        if action == 9:
            assert self.gate.wait(600)
        return super().step(action)

    def close(self) -> None:
        self.closed.release()


@pytest.fixture
def gated() -> Any:
    class Gated(GateEnv):  # what is closed late belongs to another test
        gate = threading.Event()
        closed = threading.Semaphore(0)

    yield Gated
    Gated.gate.set()


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
@pytest.mark.parametrize("pinned", [False, True])
def test_trajectories_are_those_of_the_lock_step_run(mode: AutoresetMode, pinned: bool) -> None:
    options = {"env_id": "CartPole-v1"}
    count, steps = 5, 80
    rng = np.random.default_rng(1)
    actions = rng.integers(0, 2, (steps, count))
    together = drive(gymnasium_app, count, mode, options=options)
    seeds = [3, 4, 5, 6, 7]
    together("reset", seeds)
    expected = [together("step", row) for row in actions]
    together.close()

    alone = drive(gymnasium_app, count, mode, options=options)
    if pinned:
        alone.host.engine._pinned = True  # type: ignore[attr-defined]
    alone("reset", seeds)
    taken = [0] * count
    alone("send", np.arange(count), actions[0])
    while min(taken) < steps:
        back, observations, rewards, terminations, truncations, infos = alone("recv", 1, 60.0)
        assert len(set(back.tolist())) == len(back) > 0
        again = []
        for k, i in enumerate(back.tolist()):
            row = expected[taken[i]]
            assert_identical(observations[k], row[0][i])
            assert (rewards[k], terminations[k], truncations[k]) == tuple(c[i] for c in row[1:4])
            if "final_obs" in row[4] and row[4]["_final_obs"][i]:
                assert infos["_final_obs"][k]
                assert_identical(infos["final_obs"][k], row[4]["final_obs"][i])
            taken[i] += 1
            if taken[i] < steps:
                again.append(i)
        rng.shuffle(again)
        if again:
            alone("send", indices(*again), np.array([actions[taken[i], i] for i in again]))
    alone.close()


def test_what_is_ready_first_comes_first(gated: Any) -> None:
    ours = drive(gated, 3)
    ours("reset", None)
    assert ours("recv", 0, 0.0)[0].tolist() == []
    ours("send", indices(0, 1), np.array([9, 1]))
    ours("send", indices(2), np.array([2]))
    back = ours("recv", 2, None)
    assert sorted(back[0].tolist()) == [1, 2]
    assert {int(i): float(r) for i, r in zip(back[0], back[2], strict=True)} == {1: 1.0, 2: 2.0}
    assert ours("recv", 0, None)[0].tolist() == []
    empty = ours("recv", 1, 0.05)
    assert [len(part) for part in empty[:5]] == [0] * 5 and empty[1].shape == (0, 2)
    assert empty[5] == {} and empty[0].dtype == np.int64
    gated.gate.set()
    assert ours("recv", 1, None)[0].tolist() == [0]
    assert ours("step", np.array([1, 1, 1]))[0][:, 1].tolist() == [2, 2, 2]
    ours.close()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (indices(0, 3), "index 3 is not in 0..2"),
        (indices(-1), "index -1"),
        (indices(1, 1), "index 1 occurs twice"),
        (indices(), "at least one"),
        (np.array([[0]]), "one dimension"),
        (np.array([0.5]), "integers"),
        ([0], "array of integers"),
        (None, "array of integers"),
    ],
)
def test_wrong_indices(given: Any, message: str) -> None:
    ours = drive(CountEnv, 3)
    ours("reset", None)
    with pytest.raises(errors.ProtocolError, match=message) as refused:
        ours("send", given, np.array([1]))
    assert refused.value.field == "indices"


@pytest.mark.parametrize(
    ("args", "field"),
    [
        ((-1, None), "min_envs"),
        (("1", None), "min_envs"),
        ((True, None), "min_envs"),
        ((1, "x"), "timeout_s"),
        ((0, -1.0), "timeout_s"),
        ((0, float("nan")), "timeout_s"),
        ((1, None), "min_envs"),
    ],
)
def test_wrong_receiving(args: Any, field: str) -> None:
    ours = drive(CountEnv, 3)
    ours("reset", None)
    with pytest.raises(errors.ProtocolError) as refused:
        ours("recv", *args)
    assert refused.value.field == field


def test_order_of_calls(gated: Any) -> None:
    ours = drive(gated, 3, first=5)
    with pytest.raises(errors.ResetNeededError):
        ours("send", indices(0), np.array([1]))
    ours("reset", None)
    with pytest.raises(errors.InvalidActionError, match="Expected 2 actions"):
        ours("send", indices(0, 1), np.array([1]))
    with pytest.raises(errors.InvalidActionError, match=r"actions\[7\]"):
        ours("send", indices(0, 2), np.array([1, 10]))
    ours("send", indices(1), np.array([9]))
    with pytest.raises(errors.ProtocolError, match="Sub-environment 6 was sent already"):
        ours("send", indices(0, 1), np.array([1, 1]))
    with pytest.raises(errors.ProtocolError, match="min_envs=2, but only 1") as refused:
        ours("recv", 2, None)
    assert refused.value.field == "min_envs"
    for op, args in [
        ("step", [np.array([1, 1, 1])]),
        ("reset", [None]),
        ("render", []),
        ("call", ["count", [], {}]),
        ("set", ["count", [1, 1, 1]]),
    ]:
        with pytest.raises(errors.ProtocolError, match=f"Cannot {op} while 1"):
            ours(op, *args)
    assert ours("ping") is None
    gated.gate.set()
    ours("recv", 1, None)
    assert ours("call", "count", [], {}) == [0, 1, 0]
    ours.close()


def test_one_that_raises_does_not_take_the_others_along() -> None:
    ours = drive(CountEnv, 3, first=10)
    ours("reset", None)
    ours("set", "fails", [None, "step", None])
    ours("send", indices(0, 1, 2), np.array([1, 1, 1]))
    with pytest.raises(errors.EnvironmentFailedError, match="not this one") as raised:
        while True:
            ours("recv", 3, None)
    assert raised.value.data == {"type": "ValueError", "index": 11, "indices": [11]}
    back = ours("recv", 2, None)
    assert sorted(back[0].tolist()) == [0, 2]
    ours("set", "fails", [None, None, None])
    observations, _ = ours("reset", None, None, np.array([False, True, False]))
    assert observations[:, 1].tolist() == [1, 0, 1]
    ours("send", indices(1), np.array([1]))
    assert ours("recv", 1, None)[1].tolist() == [[2, 1]]
    ours.close()


class OddEnv(CountEnv):
    """A step with action 9 returns what goes into no batch: see `odd`."""

    odd = "observation"

    def step(self, action: Any) -> Any:
        observation, reward, terminated, truncated, info = super().step(action)
        info = {"number": 1}
        if action == 9 and self.odd == "observation":
            observation = np.zeros(5)
        elif action == 9 and self.odd == "reward":
            reward = "much"
        elif action == 9:
            info = {"number": "nine"}
        return observation, reward, terminated, truncated, info


@pytest.mark.parametrize("odd", ["observation", "reward", "info"])
def test_one_whose_results_fit_into_no_batch_does_not_take_the_others_along(
    odd: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OddEnv, "odd", odd)
    ours = drive(OddEnv, 4, options={"length": 2}, first=10)
    ours.host.engine._pinned = True  # type: ignore[attr-defined]  # they end in their order
    ours("reset", None)
    for observed in (1, 2):
        ours("send", np.arange(4), np.array([1, 2, 9, 3]))
        with pytest.raises(errors.EnvironmentFailedError) as raised:
            ours("recv", 4, 30.0)
        assert raised.value.data["indices"] == [12]
        back, observations, rewards, terminations, *_ = ours("recv", 3, 30.0)
        assert back.tolist() == [0, 1, 3] and rewards.tolist() == [1, 2, 3]
        assert observations[:, 1].tolist() == [observed] * 3
        assert terminations.tolist() == [observed == 2] * 3
    # Nobody was told that its episode is over, so it is told once more.
    assert ours("step", np.array([1, 1, 1, 1]))[2].tolist() == [False, False, True, False]
    ours.close()


def test_the_last_observations_are_remembered() -> None:
    ours = drive(CountEnv, 3, options={"length": 9})
    ours("reset", None)
    ours("send", indices(0, 2), np.array([1, 1]))
    ours("recv", 2, None)
    ours("send", indices(2), np.array([1]))
    ours("recv", 1, None)
    observations, _ = ours("reset", None, None, np.array([False, True, False]))
    assert observations.tolist() == [[1, 1], [2, 0], [1, 2]]
    ours.close()


class ChainEnv(CountEnv):
    """A step ends when that of the next one has begun and ended; the last one waits for nobody."""

    made: list[ChainEnv] = []

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.next_done = threading.Event()
        self.before: ChainEnv | None = self.made[-1] if self.made else None
        self.made.append(self)

    def step(self, action: Any) -> Any:
        if self is not self.made[-1]:
            assert self.next_done.wait(60)
            self.next_done.clear()
        if self.before is not None:
            self.before.next_done.set()
        return super().step(action)


@pytest.mark.parametrize("count", [2, 16, MAX_THREADS])
@pytest.mark.parametrize("mode", MODES)
def test_steps_that_wait_for_each_other(count: int, mode: AutoresetMode) -> None:
    """Sent first is who waits longest; nobody gets through unless all are in their steps at once."""
    ChainEnv.made = []
    ours = drive(ChainEnv, count, mode, options={"length": 2})
    twin = drive(CountEnv, count, mode, options={"length": 2})
    for each in (ours, twin):
        each("reset", None)
    steps = 2 if mode is AutoresetMode.DISABLED else 5
    for index in range(steps):
        actions = np.arange(count) % 9
        expected = twin("step", actions)
        if mode is AutoresetMode.NEXT_STEP and index == 2:
            # Nobody steps in a step that resets.
            ours("send", np.arange(count), actions)
        else:
            for i in range(count):
                ours("send", indices(i), actions[i : i + 1])
        back, *results, _ = ours("recv", count, 60.0)
        order = np.argsort(back)
        assert back[order].tolist() == list(range(count))
        for column, wanted in zip(results, expected[:4], strict=True):
            assert_identical(column[order], wanted)
    ours.close()
    twin.close()


def test_threads_are_as_many_as_are_needed_and_end_with_the_session(gated: Any) -> None:
    before = threads()
    ours = drive(gated, MAX_THREADS + 6)
    ours("reset", None)
    assert not threads() - before
    ours("send", np.arange(3), np.full(3, 9))
    assert len(threads() - before) == 3
    ours("send", np.arange(3, MAX_THREADS + 6), np.full(MAX_THREADS + 3, 9))
    assert len(threads() - before) == MAX_THREADS
    gated.gate.set()
    assert len(ours("recv", MAX_THREADS + 6, None)[0]) == MAX_THREADS + 6
    ours("send", np.arange(3), np.full(3, 9))
    ours("recv", 3, None)
    assert len(threads() - before) <= MAX_THREADS
    ours.close()
    assert eventually(lambda: not threads() - before)


@pytest.mark.parametrize("allowed", [0, 2])
def test_where_the_system_gives_no_more_threads(
    allowed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[threading.Thread] = []
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name == "openenv-vector":  # and of no other server that is still there
            if len(started) >= allowed:
                raise RuntimeError("can't start new thread")
            started.append(thread)
        start(thread)

    ours = drive(CountEnv, 6, options={"length": 100})
    ours("reset", None)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    for number in range(1, 4):
        ours("send", np.arange(6), np.ones(6, int))
        back = ours("recv", 6, 60.0)
        assert sorted(back[0].tolist()) == list(range(6))
        assert back[1][:, 1].tolist() == [number] * 6
    ours.close()


def test_a_reset_after_some_have_failed_while_others_wait(gated: Any) -> None:
    ours = drive(gated, 20, first=100)
    ours("reset", None)
    ours("set", "fails", [None, "step", "exit", None] * 5)
    ours("send", np.arange(20), np.array([9, 1, 1, 1] * 5))
    failed: set[int] = set()
    while len(failed) < 10:
        with pytest.raises(errors.EnvironmentFailedError) as raised:
            ours("recv", 20 - len(failed), None)
        failed.update(raised.value.data["indices"])
    assert failed == {100 + i for i in range(20) if i % 4 in (1, 2)}
    gated.gate.set()
    back = ours("recv", 10, None)
    assert sorted(back[0].tolist()) == [i for i in range(20) if i % 4 in (0, 3)]
    ours("set", "fails", [None] * 20)
    observations, _ = ours("reset", None)
    assert observations.tolist() == [[2, 0]] * 20
    ours("send", np.arange(20), np.ones(20, int))
    assert ours("recv", 20, None)[1].tolist() == [[2, 1]] * 20
    ours.close()


def test_closing_while_steps_run(gated: Any) -> None:
    before = threads()
    ours = drive(gated, 6)
    ours("reset", None)
    ours("send", np.arange(6), np.array([9, 9, 1, 1, 9, 9]))
    if len(threads() - before) >= 4:
        ours("recv", 2, 0.1)
    ours.close()  # which does not wait for them: nothing opens the gate before
    gated.gate.set()
    for _ in range(6):
        assert gated.closed.acquire(timeout=60)
    assert not gated.closed.acquire(blocking=False)  # none twice
    assert eventually(lambda: not threads() - before)


def test_one_session_that_waits_keeps_no_other_waiting(site: Site, gated: Any) -> None:
    site.start(gated)
    waits, other = (Wire(site.client(), num_envs=2) for _ in range(2))
    waits("reset", None)
    waits("send", indices(0), np.array([9]))
    waits.client.send(1, 3, 2, "recv", [1, None])
    other("reset", None)
    for _ in range(20):
        other("step", np.array([1, 1]))
    gated.gate.set()
    assert waits.client.receive()[2][0].tolist() == [0]


def test_what_is_pinned_is_stepped_where_it_is_received(site: Site) -> None:
    class Affine(CountEnv):
        def __init__(self) -> None:
            super().__init__()
            self.threads = {threading.get_ident()}

        def step(self, action: Any) -> Any:
            self.threads.add(threading.get_ident())
            return super().step(action)

        def count_threads(self) -> int:
            return len(self.threads)

    site.start(Affine, thread_affinity=True)
    ours = Wire(site.client(), num_envs=3)
    ours("reset", None)
    ours("send", indices(0, 1, 2), np.array([1, 1, 1]))
    assert ours("recv", 2, 60.0)[0].tolist() == [0, 1]
    assert ours("recv", 0, 0.0)[0].tolist() == [2]
    ours("step", np.array([1, 1, 1]))
    assert ours("call", "count_threads", [], {}) == [1, 1, 1]
