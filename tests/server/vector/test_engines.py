"""Threads for steps that release the interpreter, and vectorised implementations."""

from __future__ import annotations

import dataclasses
import threading
import time
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from openenv_gym import errors
from openenv_gym.server import create_app, load_app
from openenv_gym.server.gymnasium_app import app as gymnasium_app
from openenv_gym.server.vector.crew import Crew
from tests.server.conftest import Site
from tests.server.vector.conftest import MODES, CountEnv, Wire, drive
from tests.spaces.compare import assert_identical
from tests.support.waiting import eventually


def crew_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "openenv-vector"}


# -- threads ------------------------------------------------------------------------------------


class SleepyEnv(CountEnv):
    """Notes which threads step it; with company, a step waits until there were two of them."""

    seen: set[int] = set()
    two = threading.Event()

    def __init__(self, company: bool = False) -> None:
        super().__init__()
        self.company = company

    def step(self, action: Any) -> Any:
        self.seen.add(threading.get_ident())
        if len(self.seen) > 1:
            self.two.set()
        assert not self.company or self.two.wait(60)
        time.sleep(0.002)
        return super().step(action)


@pytest.mark.parametrize("mode", MODES)
def test_threads_do_what_a_loop_does(mode: AutoresetMode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 3)
    before = crew_threads()
    app = create_app(SleepyEnv)
    SleepyEnv.seen.clear()
    SleepyEnv.two.clear()
    loop = drive(app, 7, mode)
    releasing = dataclasses.replace(app, releases_gil=lambda options: True)
    shared = drive(releasing, 7, mode, options={"company": True})
    assert (loop.host.engine.name, shared.host.engine.name) == ("loop", "threads")
    for ours in (loop, shared):
        ours("reset", None)
    assert not crew_threads() - before
    for index in range(6):
        actions = np.arange(7)
        a, b = loop("step", actions), shared("step", actions)
        assert_identical(a[:4], b[:4])
        if mode is AutoresetMode.DISABLED and a[2].any():
            assert_identical(
                loop("reset", None, None, a[2])[0], shared("reset", None, None, a[2])[0]
            )
        if index == 1:
            for ours in (loop, shared):
                ours("set", "fails", [None] * 5 + ["step", None])
                with pytest.raises(errors.EnvironmentFailedError) as raised:
                    ours("step", actions)
                assert raised.value.data["index"] == 5
                ours("set", "fails", [None] * 7)
                ours("reset", None)
    assert len(SleepyEnv.seen) >= 2
    assert threading.get_ident() in SleepyEnv.seen
    assert len(crew_threads() - before) <= 2
    loop.close()
    shared.close()
    assert eventually(lambda: not crew_threads() - before)


def test_what_is_pinned_gets_no_threads() -> None:
    app = dataclasses.replace(
        create_app(CountEnv, thread_affinity=True), releases_gil=lambda options: True
    )
    ours = drive(app, 4)
    assert ours.host.engine.name == "loop"
    ours.close()


def test_who_comes_late_is_not_waited_for() -> None:
    crew = Crew(1)
    gate, begun = threading.Event(), threading.Event()

    def block() -> None:
        begun.set()
        gate.wait(60)

    crew.put(block)
    assert begun.wait(60)
    done: list[int] = []
    crew.share(lambda: done.append(threading.get_ident()), 1)
    assert done == [threading.get_ident()]
    gate.set()
    crew.close()


# -- Gymnasium's own ----------------------------------------------------------------------------


def test_cart_poles() -> None:
    theirs: Any = gymnasium.make_vec(
        "CartPole-v1", num_envs=5, vectorization_mode="vector_entry_point", max_episode_steps=30
    )
    ours = drive(
        gymnasium_app,
        5,
        options={"env_id": "CartPole-v1"},
        native=True,
        own_limit=False,
        max_episode_steps=30,
    )
    assert ours.host.describe()["vector"]["engine"] == "native"
    assert ours.host.describe()["vector"]["max_episode_steps"] == 30
    assert_identical(ours("reset", [4, 5, 6, 7, 8]), list(theirs.reset(seed=4)))
    rng = np.random.default_rng(0)
    ended = 0
    for _ in range(150):
        actions = rng.integers(0, 2, 5)
        expected = theirs.step(actions)
        result = ours("step", actions)
        assert_identical(result[0], expected[0])
        assert result[1].dtype == np.float64 and np.array_equal(result[1], expected[1])
        assert_identical(result[2:4], list(expected[2:4]))
        assert result[4] == {}
        ended += int((expected[2] | expected[3]).sum())
    assert ended > 5
    assert ours("call", "gravity", [], {}) == [9.8] * 5
    states = ours("call", "np_random", [], {})
    assert len(states) == 5 and states[0]["seed"] == 4
    ours("set", "gravity", [5.0] * 5)
    assert ours("call", "gravity", [], {}) == [5.0] * 5
    with pytest.raises(ValueError, match="the same"):
        ours("set", "gravity", [5.0, 1.0, 5.0, 5.0, 5.0])
    for make in (lambda: np.arange(3), lambda: float("nan"), lambda: {"low": np.zeros(2)}):
        ours("set", "gravity", [make() for _ in range(5)])
        assert repr(ours("call", "gravity", [], {})) == repr([make()] * 5)
    with pytest.raises(ValueError, match="the same"):
        ours("set", "gravity", [np.arange(3)] * 4 + [np.ones(3)])
    ours.close()
    theirs.close()


def test_the_default_for_cart_poles_is_single_ones() -> None:
    ours = drive(gymnasium_app, 2, options={"env_id": "CartPole-v1"})
    assert ours.host.engine.name == "loop"
    own = drive(gymnasium_app, 2, options={"env_id": "CartPole-v1"}, native=True)
    assert own.host.describe()["vector"]["max_episode_steps"] == 500
    never = drive(gymnasium_app, 1, options={"env_id": "CartPole-v1"}, native=True, own_limit=False)
    assert never.host.describe()["vector"]["max_episode_steps"] is None
    for each in (ours, own, never):
        each.close()


@pytest.mark.parametrize(
    ("env_id", "more", "field"),
    [
        ("Pendulum-v1", {}, "engine"),
        ("CartPole-v1", {"mode": AutoresetMode.SAME_STEP}, "autoreset_mode"),
        ("CartPole-v1", {"mode": AutoresetMode.DISABLED}, "autoreset_mode"),
        ("NoSuch-v1", {}, "env_id"),
    ],
)
def test_what_gymnasium_does_not_have(env_id: str, more: Any, field: str) -> None:
    with pytest.raises(errors.InvalidOptionError) as refused:
        drive(gymnasium_app, 2, options={"env_id": env_id}, native=True, **more)
    assert refused.value.field == field
    assert env_id in str(refused.value)


def test_what_gymnasiums_own_cannot_do() -> None:
    ours = drive(gymnasium_app, 2, options={"env_id": "CartPole-v1"}, native=True)
    with pytest.raises(errors.ResetNeededError):
        ours("step", np.array([1, 1]))
    for seeds in ([5, 9], [None, 5], [5, None]):
        with pytest.raises(errors.InvalidOptionError, match="takes one seed") as refused:
            ours("reset", seeds)
        assert refused.value.field == "seeds"
    ours("reset", [None, None])
    ours("reset", [5, 6])
    with pytest.raises(errors.InvalidOptionError) as refused:
        ours("reset", None, None, np.array([True, False]))
    assert refused.value.field == "mask"
    with pytest.raises(errors.InvalidActionError, match=r"actions\[1\]"):
        ours("step", np.array([1, 2]))
    with pytest.raises(errors.ProtocolError, match="at once"):
        ours("send", np.array([0]), np.array([1]))
    with pytest.raises(errors.ProtocolError):
        ours("recv", 1, None)
    assert ours("step", [1, 0])[0].shape == (2, 4)
    ours.close()


# -- ale-py's -----------------------------------------------------------------------------------


ATARI = {
    "game": "breakout",
    "preprocess": True,
    "max_num_frames_per_episode": 120,
    "repeat_action_probability": 0.25,
}


def atari() -> Any:
    pytest.importorskip("ale_py")
    return load_app("atari_env")


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_games_are_independent_of_the_split(mode: AutoresetMode) -> None:
    app = atari()
    split = [
        drive(app, 1, mode, options=ATARI),
        drive(app, 3, mode, options=ATARI, first=1),
    ]
    together = drive(app, 4, mode, options=ATARI)
    single = drive(dataclasses.replace(app, native=None), 4, mode, options=ATARI)
    assert [d.host.engine.name for d in (*split, together, single)] == ["native"] * 3 + ["loop"]
    seeds = [8, 9, 10, 2**40]

    def join(results: Any, index: int) -> Any:
        return np.concatenate([result[index] for result in results])

    def check(whole: Any, parts: Any, alone: Any) -> None:
        for index in range(len(whole) - 1):
            assert_identical(whole[index], join(parts, index))
            assert_identical(whole[index], alone[index])
        infos = [part[-1] for part in parts]
        for key in ("env_id", "lives", "frame_number", "episode_frame_number"):
            assert_identical(whole[-1][key], join(infos, key))  # type: ignore[arg-type]
            assert whole[-1][f"_{key}"].all()
        assert whole[-1]["env_id"].tolist() == [0, 1, 2, 3]
        for key in ("lives", "frame_number"):
            assert np.array_equal(whole[-1][key], alone[-1][key])
        assert ("final_obs" in whole[-1]) == ("final_obs" in alone[-1])
        if "final_obs" in whole[-1]:
            over = whole[2] | whole[3]
            assert_identical(whole[-1]["_final_obs"], over)
            assert_identical(whole[-1]["_final_info"], over)
            for ours, theirs in zip(whole[-1]["final_obs"], alone[-1]["final_obs"], strict=True):
                assert (ours is None) == (theirs is None)
                assert ours is None or np.array_equal(ours, theirs)

    check(
        together("reset", seeds),
        [split[0]("reset", seeds[:1]), split[1]("reset", seeds[1:])],
        single("reset", seeds),
    )
    rng = np.random.default_rng(0)
    ended = 0
    for index in range(70):
        actions = rng.integers(0, 4, 4)
        whole = together("step", actions)
        assert whole[1].dtype == np.float64
        ended += int((whole[2] | whole[3]).sum())
        check(
            whole,
            [split[0]("step", actions[:1]), split[1]("step", actions[1:])],
            single("step", actions),
        )
        if index == 50:
            mask = np.array([False, True, False, True])
            again = [None, 5, None, None]
            whole = together("reset", again, None, mask)
            part = split[1]("reset", again[1:], None, mask[1:])
            alone = single("reset", again, None, mask)
            assert_identical(whole[0], alone[0])
            assert_identical(whole[0][1:], part[0])
            assert_identical(whole[1]["_lives"], mask)
    assert ended > 4
    for ours in (*split, together, single):
        ours.close()


def test_attributes_of_games(site: Site) -> None:
    app = atari()
    site.start(app.factory)
    ours = drive(app, 2, options={**ATARI, "render_mode": "rgb_array"})
    single = drive(
        dataclasses.replace(app, native=None), 2, options={**ATARI, "render_mode": "rgb_array"}
    )
    for each in (ours, single):
        each("reset", [3, 4])
        each("step", np.array([1, 0]))
    for name in ("lives", "get_action_meanings", "np_random_seed", "render_mode"):
        assert ours("call", name, [], {}) == single("call", name, [], {}), name
    assert_identical(ours("render"), single("render"))
    assert_identical(ours("call", "render", [], {}), single("call", "render", [], {}))
    for a, b in zip(
        ours("call", "np_random", [], {}), single("call", "np_random", [], {}), strict=True
    ):
        assert a["seed"] == b["seed"] and dict(a["state"]) == dict(b["state"])
    ours("set", "note", [1, 2])
    assert ours("call", "note", [], {}) == [1, 2]
    with pytest.raises(AttributeError):
        ours("call", "nothing", [], {})
    with pytest.raises(errors.InvalidActionError, match=r"actions\[1\]"):
        ours("step", np.array([0, 9]))  # for whose result the engine would wait for ever
    with pytest.raises(gymnasium.error.Error, match="Seed"):
        ours("reset", [3, -1])
    assert ours("call", "np_random_seed", [], {}) == [3, 4]
    ours.close()
    single.close()


@pytest.mark.parametrize(
    ("options", "more", "field"),
    [
        ({"game": "pong"}, {}, "engine"),
        ({"preprocess": True}, {"mode": AutoresetMode.DISABLED}, "autoreset_mode"),
        ({"preprocess": True}, {"own_limit": False, "max_episode_steps": 9}, "max_episode_steps"),
        ({"preprocess": True, "noop": 1}, {}, "noop"),
        ({"preprocess": True, "render_mode": "human"}, {}, "render_mode"),
        ({"preprocess": True, "game": "no such game"}, {}, "game"),
    ],
)
def test_what_the_engine_of_games_refuses(options: Any, more: Any, field: str) -> None:
    with pytest.raises(errors.InvalidOptionError) as refused:
        drive(atari(), 2, options=options, native=True, **more)
    assert refused.value.field == field


def test_single_games_do_what_the_engine_cannot() -> None:
    app = atari()
    ours = drive(app, 2, AutoresetMode.DISABLED, options=ATARI)
    assert ours.host.engine.name == "loop"
    ours.close()
    ours = drive(app, 2, options=ATARI, own_limit=False, max_episode_steps=4)
    ours("reset", [1, 2])
    assert [ours("step", np.array([0, 0]))[3].all() for _ in range(5)] == [False] * 3 + [
        True,
        False,
    ]
    ours.close()
    lost = {**ATARI, "life_loss_info": True}
    with pytest.raises(errors.InvalidOptionError, match="life_loss_info"):
        drive(app, 2, AutoresetMode.DISABLED, options=lost)


def test_games_over_a_connection(site: Site) -> None:
    app = atari()
    server_app = dataclasses.replace(app, name="atari_env")
    from openenv_gym.server import Server

    server = Server(server_app)
    server.listen_unix(site.path)
    server.start()
    site._servers.append(server)
    ours = Wire(site.client(), num_envs=3, first=4, options={"preprocess": True})
    assert ours.welcome[1]["environment"]["vector"]["engine"] == "native"
    observations, infos = ours("reset", [1, 2, 3])
    assert observations.shape == (3, 4, 84, 84) and observations.dtype == np.uint8
    assert infos["env_id"].tolist() == [4, 5, 6]
    kept = [ours("step", np.array([2, 3, 0]))[0] for _ in range(3)]
    assert not np.array_equal(kept[0], kept[2])
