"""`RemoteEnv` behaves as the environment itself does."""

from __future__ import annotations

import asyncio
import copy
import gc
import pickle
import threading
import time
import weakref
from typing import Any

import gymnasium
import numpy as np
import pytest

import openenv_gym
from openenv_gym import errors
from openenv_gym.env import RemoteEnv
from tests.support.interrupting import interrupted_in
from tests.support.waiting import impatient
from tests.support.worlds import BlockingEnv, CountingEnv, FailingEnv


def hosted(name: str, **kwargs: Any) -> gymnasium.Env[Any, Any]:
    return gymnasium.make(f"openenv/{name}", provider="thread", **kwargs)


# -- bad input --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (7, "7"),
        (-1, "-1"),
        (1.0, "float"),
        ("left", "str"),
        (None, "None"),
        (np.zeros(2, np.int64), "shape"),
        (object(), "object"),
    ],
)
def test_an_action_that_is_not_taken_is_refused_and_harms_nothing(
    action: Any, message: str
) -> None:
    env = hosted("CartPole-v1", disable_env_checker=True)
    env.reset(seed=0)
    with pytest.raises(errors.InvalidActionError, match=message):
        env.step(action)
    observation, _ = env.reset(seed=0)
    expected, _ = gymnasium.make("CartPole-v1").reset(seed=0)
    assert (observation == expected).all()
    env.close()


def test_a_box_takes_what_the_local_environment_takes() -> None:
    local = gymnasium.make("Pendulum-v1", disable_env_checker=True)
    remote = hosted("Pendulum-v1", disable_env_checker=True)
    local.reset(seed=3)
    remote.reset(seed=3)
    for action in (np.array([99.0]), np.array([-3], np.int64), np.array([0.5], np.float16)):
        here, there = local.step(action), remote.step(action)
        assert (here[0] == there[0]).all() and here[1] == there[1]
    for action in (np.zeros(3, np.float32), np.array(["up"]), [[1.0]], {"a": 1}):
        with pytest.raises(errors.InvalidActionError):
            remote.step(action)
    local.close()
    remote.close()


def test_an_exception_of_the_environment_arrives_as_its_own_class(remote: Any) -> None:
    env = remote(FailingEnv)
    env.reset()
    with pytest.raises(ValueError, match="one is not for me") as caught:
        env.step(1)
    assert isinstance(caught.value, errors.EnvironmentFailedError)
    assert caught.value.type_name == "ValueError"
    with pytest.raises(KeyError):
        env.step(2)
    with pytest.raises(errors.EnvironmentFailedError, match="three") as caught:
        env.step(3)
    assert caught.value.type_name == "UnheardOfError"
    with pytest.raises(TypeError, match=r"sent: info\['what'\]\[0\] \(of type object\)"):
        env.step(4)
    assert env.step(5)[0]["count"][2] == 5


def test_step_and_render_before_reset(remote: Any) -> None:
    env = remote(CountingEnv)
    with pytest.raises(gymnasium.error.ResetNeeded, match="before reset"):
        env.step(0)
    with pytest.raises(errors.ResetNeededError, match="before reset"):
        env.render()


def test_use_after_close(remote: Any) -> None:
    env = remote(CountingEnv)
    env.reset()
    env.close()
    env.close()
    with pytest.raises(gymnasium.error.ClosedEnvironmentError, match="is closed"):
        env.step(0)
    with pytest.raises(errors.SessionClosedError):
        env.reset()


def test_unknown_options_and_ids_name_themselves() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'bogus'"):
        hosted("CartPole-v1", bogus=1)  # what the local environment says
    with pytest.raises(errors.InvalidOptionError, match="NoSuch-v0"):
        hosted("Gymnasium-v0", env_id="NoSuch-v0")
    with pytest.raises(errors.InvalidOptionError, match="Expected the id"):
        hosted("Gymnasium-v0", env_id=5)
    with pytest.raises(errors.InvalidOptionError, match="env_id"):
        hosted("Gymnasium-v0")
    with pytest.raises(errors.InvalidOptionError, match="no provider 'moon'"):
        gymnasium.make("openenv/CartPole-v1", provider="moon")
    with pytest.raises(errors.InvalidOptionError, match="base_url is missing"):
        gymnasium.make("openenv/Remote-v0")


# -- interruptions ----------------------------------------------------------------------------


def test_ctrl_c_in_a_step_leaves_the_env_usable_after_reset(remote: Any) -> None:
    BlockingEnv.gate.clear()
    BlockingEnv.entered.clear()
    env = remote(BlockingEnv)
    env.reset()
    interrupted = interrupted_in("receive", once=BlockingEnv.entered.is_set)
    with interrupted, pytest.raises(KeyboardInterrupt):
        env.step(1)
    with pytest.raises(errors.ResetNeededError, match="interrupted"):
        env.step(2)
    BlockingEnv.gate.set()
    observation, _ = env.reset()
    assert observation["count"].tolist() == [1, 2, 1]
    assert env.step(3)[0]["count"].tolist() == [2, 2, 3]


def test_a_step_beyond_its_time_leaves_the_env_usable_after_reset(remote: Any) -> None:
    BlockingEnv.gate.clear()
    env = remote(BlockingEnv)
    env.reset()
    late = pytest.raises(TimeoutError, match=r"within 0\.3 s")
    with impatient(env.openenv.connection), late:
        env.step(1)
    with pytest.raises(errors.ResetNeededError):
        env.step(1)
    BlockingEnv.gate.set()
    assert env.reset()[0]["count"].tolist() == [1, 2, 1]


def test_inside_a_running_event_loop(remote: Any) -> None:
    async def cell() -> Any:
        env = remote(CountingEnv)
        env.reset()
        return env.step(4)[0]["count"].tolist()

    assert asyncio.run(cell()) == [1, 1, 4]


def test_threads_may_share_an_env_one_at_a_time(remote: Any) -> None:
    env = remote(CountingEnv)
    env.reset()
    threads = [threading.Thread(target=lambda: [env.step(1) for _ in range(50)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert env.step(1)[0]["count"][0] == 201


# -- the rest ---------------------------------------------------------------------------------


def test_specs_pickles_and_copies_make_equal_environments() -> None:
    env = hosted("CartPole-v1", max_episode_steps=7)
    spec = gymnasium.envs.registration.EnvSpec.from_json(env.spec.to_json())
    again = [gymnasium.make(spec), pickle.loads(pickle.dumps(env)), copy.deepcopy(env)]
    first = env.reset(seed=4)[0]
    for other in again:
        assert (other.reset(seed=4)[0] == first).all()
        assert other.unwrapped is not env.unwrapped
        truncated = [other.step(step % 2)[3] for step in range(7)]
        assert truncated == [False] * 6 + [True]
        other.close()
    env.close()


@pytest.mark.parametrize("provider", ["thread", "process"])
def test_an_env_that_is_dropped_ends_at_once(provider: str) -> None:
    env = gymnasium.make("openenv/CartPole-v1", provider=provider)
    env.reset(seed=0)
    env.step(0)
    assert env.unwrapped.np_random.random() > 0
    assert env.unwrapped.gravity == 9.8
    session = env.unwrapped.openenv
    dropped = weakref.ref(env.unwrapped)
    gc.disable()
    try:
        del env
        assert dropped() is None
    finally:
        gc.enable()
    assert session.connection.closed


def test_a_copy_of_an_episode_goes_on_where_it_is() -> None:
    env = hosted("Echo-v0")
    env.reset(seed=1)
    env.step("one")
    again = copy.deepcopy(env)
    assert again.unwrapped.openenv.state() == env.unwrapped.openenv.state()
    assert again.step("two")[0] == env.step("two")[0]
    again.close()
    env.close()
    env = hosted("CartPole-v1")
    env.reset()
    with pytest.raises(TypeError, match="before the first reset"):
        copy.deepcopy(env)
    env.close()


def test_a_hosted_id_brings_its_time_limit() -> None:
    def steps(**kwargs: Any) -> tuple[int, int | None]:
        env = hosted("Gymnasium-v0", env_id="MountainCar-v0", **kwargs)
        env.reset(seed=0)
        number = next((n for n in range(1, 300) if env.step(1)[3]), 0)
        limit = env.spec.max_episode_steps
        env.close()
        return number, limit

    assert steps() == (200, 200)
    assert steps(max_episode_steps=5) == (5, 5)
    assert steps(max_episode_steps=250, hosted_time_limit=False) == (250, 250)
    assert steps(max_episode_steps=-1, hosted_time_limit=False) == (0, None)
    env = hosted("Gymnasium-v0", env_id="MountainCar-v0")
    for again in (gymnasium.make(env.spec), pickle.loads(pickle.dumps(env)), copy.deepcopy(env)):
        wrappers = str(again)
        again.close()
        assert "TimeLimit" in wrappers
    env.close()


def test_time_limits_apply_once_and_can_be_lifted() -> None:
    env = hosted("MountainCar-v0")
    assert env.spec.max_episode_steps == 200
    env.reset(seed=0)
    steps = 0
    while not env.step(1)[3]:
        steps += 1
    assert steps == 199
    env.close()
    unlimited = hosted("MountainCar-v0", max_episode_steps=-1)
    unlimited.reset(seed=0)
    assert not any(unlimited.step(1)[3] for _ in range(300))
    unlimited.close()


def test_timing_adds_up(remote: Any) -> None:
    env = remote(CountingEnv, step_s=0.01)
    assert env.timing()["steps"] == 0
    env.reset()
    begin_s = time.perf_counter()
    for _ in range(5):
        env.step(0)
    whole_s = time.perf_counter() - begin_s
    timing = env.timing()
    assert timing.pop("steps") == 5
    assert timing["environment_s"] >= 0.01
    assert min(timing.values()) >= 0
    assert 5 * sum(timing.values()) <= whole_s


def test_frames_are_the_environments(remote: Any) -> None:
    env = remote(CountingEnv, render_mode="rgb_array")
    env.reset()
    for number in range(1, 4):
        env.step(0)
        assert (env.render() == number).all()
    assert env.metadata["render_fps"] == 30 and env.render_mode == "rgb_array"


def test_human_mode_opens_a_window_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    env = hosted("CartPole-v1", render_mode="human")
    assert env.render_mode == "human"
    env.reset(seed=0)
    env.step(0)
    assert env.render() is None
    assert env.unwrapped._openenv_viewer._window.get_size() == (600, 400)
    env.close()


def test_a_token_shows_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    from openenv_gym.server import Server, load_app

    server = Server(load_app("gymnasium"), token="s3cret-token")
    server.start()
    host, port = server.listen_tcp("127.0.0.1", 0)
    options: dict[str, Any] = {"base_url": f"http://{host}:{port}", "env_id": "CartPole-v1"}
    with pytest.raises(errors.UnauthorizedError, match="token"):
        gymnasium.make("openenv/Remote-v0", **options)
    monkeypatch.setenv("OPENENV_TOKEN", "s3cret-token")
    env = gymnasium.make("openenv/Remote-v0", **options)
    env.reset(seed=0)
    shown = f"{env!r} {env.unwrapped!r} {env.spec} {env.spec.to_json()} {env.unwrapped.openenv.connection!r}"
    assert "s3cret" not in shown
    env.close()
    server.stop()


def test_remote_env_is_exported() -> None:
    assert openenv_gym.RemoteEnv is RemoteEnv
