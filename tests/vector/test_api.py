"""Every public method and attribute of `AsyncVectorEnv`."""

from __future__ import annotations

import contextlib
import inspect
import multiprocessing
import re
import threading
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.error import AlreadyPendingCallError, ClosedEnvironmentError, NoAsyncCallError
from gymnasium.spaces import Box, Dict
from gymnasium.vector import AsyncVectorEnv, AutoresetMode

from openenv_gym import RemoteVectorEnv, errors
from openenv_gym.server.vector.options import DEFAULT_MAX_ENVS
from tests.support.waiting import impatient
from tests.vector.worlds import CountEnv, Fleet, GateEnv, WorldEnv, same, still


def test_it_is_one(fleet: Callable[..., Fleet]) -> None:
    # ale-py's own engine writes into the class's dictionary, whichever test makes one.
    shared = dict(gymnasium.vector.VectorEnv.metadata)
    env = fleet(WorldEnv, 5, 2).env
    assert isinstance(env, AsyncVectorEnv)
    assert repr(env) == "RemoteVectorEnv(num_envs=5)"
    assert env.num_envs == 5
    assert env.render_mode is None
    assert env.spec is None
    assert env.metadata["render_fps"] == 7
    assert env.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    assert gymnasium.vector.VectorEnv.metadata == shared
    assert env.unwrapped is env
    assert env.autoreset_mode is AutoresetMode.NEXT_STEP
    assert (env.copy, env.observation_mode, env.daemon, env.context) == (True, "same", True, None)
    assert env.parent_pipes == [] and env.processes == []
    assert isinstance(env.single_action_space, Dict)


def test_the_constructor_takes_what_the_original_takes() -> None:
    ours = inspect.signature(RemoteVectorEnv).parameters
    assert list(ours) == [
        "env_fns",
        "shared_memory",
        "copy",
        "context",
        "daemon",
        "worker",
        "observation_mode",
        "autoreset_mode",
        "max_concurrency",
    ]
    for name, parameter in inspect.signature(AsyncVectorEnv).parameters.items():
        assert ours[name].default == parameter.default
        assert ours[name].kind == parameter.kind


def test_arguments_of_the_constructor() -> None:
    with pytest.raises(errors.InvalidOptionError, match="worker"):
        RemoteVectorEnv([CountEnv], worker=print)
    with pytest.raises(errors.InvalidOptionError, match="env_fns is empty"):
        RemoteVectorEnv([])
    with pytest.raises(ValueError, match="must be an integer or None"):
        RemoteVectorEnv([CountEnv], max_concurrency="2")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="must be a positive or None"):
        RemoteVectorEnv([CountEnv], max_concurrency=0)
    with pytest.raises(ValueError, match="autoreset_mode"):
        RemoteVectorEnv([CountEnv], autoreset_mode="Sometimes")
    with pytest.raises(TypeError, match="both elements of observation_mode to be Spaces"):
        RemoteVectorEnv([CountEnv], observation_mode=(1, 2))
    env = RemoteVectorEnv(
        [CountEnv] * 3,
        shared_memory=False,
        context="spawn",
        daemon=False,
        max_concurrency=1,
    )
    env.reset()
    assert env.step([0, 0, 0])[1].tolist() == [1, 1, 1]
    env.close()


def test_no_number_of_functions_is_too_large() -> None:
    count = DEFAULT_MAX_ENVS + 1
    with contextlib.closing(RemoteVectorEnv([CountEnv] * count)) as env:
        assert env.num_envs == count


def test_a_function_that_raises_ends_the_construction() -> None:
    def broken() -> gymnasium.Env[Any, Any]:
        raise ImportError("no such simulator")

    with pytest.raises(ImportError, match="no such simulator"):
        RemoteVectorEnv([CountEnv, broken])


@pytest.mark.parametrize("num_servers", [1, 3])
def test_calls_and_attributes(fleet: Callable[..., Fleet], num_servers: int) -> None:
    env = fleet(WorldEnv, 4, num_servers, options={"render_mode": "rgb_array"}).env
    env.reset(seed=1)
    env.step(still(env))
    assert env.get_attr("gravity") == (9.8,) * 4
    env.set_attr("gravity", [1.0, 2.0, 3.0, 4.0])
    assert env.call("gravity") == (1.0, 2.0, 3.0, 4.0)
    env.set_attr("gravity", 5.0)
    env.set_attr("brand_new", (1, None, "x", [2]))
    assert env.get_attr("brand_new") == (1, None, "x", [2])
    assert env.get_attr("gravity") == (5.0,) * 4
    assert env.call("plus", 2, twice=True) == (5,) * 4
    with pytest.raises(ValueError, match="Got `2` values for 4 environments"):
        env.set_attr("gravity", [1, 2])
    with pytest.raises(errors.EncodeError):
        env.set_attr("gravity", [1, 2, 3, object()])
    assert env.get_attr("gravity") == (5.0,) * 4
    frames = env.render()
    assert isinstance(frames, tuple) and len(frames) == 4
    assert all(frame.shape == (4, 4, 3) and (frame == 1).all() for frame in frames)
    assert env.render_mode == "rgb_array"
    env.call_async("plus", 1)
    assert env.call_wait(timeout=60) == (2,) * 4
    for name in ("reset", "step", "close", "_setattr", "_check_spaces"):
        with pytest.raises(ValueError, match=f"use `{name}` directly instead"):
            env.call(name)
    assert env.get_attr("gravity") == (5.0,) * 4


def test_generators(fleet: Callable[..., Fleet]) -> None:
    env = fleet(WorldEnv, 3, 2).env
    env.reset(seed=7)
    assert env.np_random_seed == (7, 8, 9)
    generators = env.np_random
    assert isinstance(generators, tuple) and len(generators) == 3
    for index, generator in enumerate(generators):
        twin = WorldEnv()
        twin.reset(seed=7 + index)
        assert generator.bit_generator.state == twin.np_random.bit_generator.state
    env.reset()
    assert env.np_random_seed == (7, 8, 9)


@pytest.mark.parametrize(
    "seed",
    [
        5,
        np.int64(5),
        np.uint8(5),
        [5, 6, 7, 8],
        (5, 6, 7, 8),
        range(5, 9),
        [np.int32(5), 6, np.uint64(7), 8],
        np.array([5, 6, 7, 8]),
        np.arange(5, 9, dtype=np.uint8),
    ],
)
def test_seeds(fleet: Callable[..., Fleet], seed: Any) -> None:
    env = fleet(WorldEnv, 4, 2).env
    expected = fleet(WorldEnv, 4).env.reset(seed=5)
    same(env.reset(seed=seed), expected)


def test_seeds_of_some(fleet: Callable[..., Fleet]) -> None:
    env = fleet(WorldEnv, 3, 2).env
    env.reset(seed=[1, None, 3])
    found = env.np_random_seed
    assert (found[0], found[2]) == (1, 3)
    env.reset(seed=None)
    assert env.np_random_seed == found


@pytest.mark.parametrize(
    ("seed", "error", "message"),
    [
        ([1, 2], ValueError, "must match num_envs=3 but got length=2"),
        (np.arange(4), ValueError, "must match num_envs=3 but got length=4"),
        (1.5, TypeError, "got 1.5"),
        ("7", TypeError, "got '7'"),
        ([1, 2.0, 3], TypeError, r"seed\[1\] to be an integer"),
        (np.array([1.0, 2, 3]), TypeError, "an array of float64"),
    ],
)
def test_what_is_no_seed(
    fleet: Callable[..., Fleet], seed: Any, error: type[Exception], message: str
) -> None:
    env = fleet(WorldEnv, 3, 2).env
    with pytest.raises(error, match=message):
        env.reset(seed=seed)
    env.reset(seed=1)


@pytest.mark.parametrize(
    "arguments", [{"seed": [1, 1 << 9000]}, {"seed": 1, "options": {"what": object()}}]
)
def test_what_cannot_be_sent_resets_nobody(
    fleet: Callable[..., Fleet], arguments: dict[str, Any]
) -> None:
    env = fleet(CountEnv, 2, 2).env
    env.reset(seed=0)
    env.step([0, 0])
    with pytest.raises(errors.EncodeError):
        env.reset(**arguments)
    assert env.get_attr("count") == (1, 1)


def test_pending_calls(fleet: Callable[..., Fleet]) -> None:
    env = fleet(WorldEnv, 2, 2).env
    with pytest.raises(NoAsyncCallError, match=re.escape("`reset_wait` without any prior call")):
        env.reset_wait()
    with pytest.raises(NoAsyncCallError, match="`step_wait`"):
        env.step_wait()
    with pytest.raises(NoAsyncCallError, match="`call_wait`"):
        env.call_wait()
    env.reset_async(seed=1)
    for name, call in {
        "step_async": lambda: env.step_async(still(env)),
        "reset_async": env.reset_async,
        "call_async": lambda: env.call_async("gravity"),
        "set_attr": lambda: env.set_attr("gravity", 1),
        "send": lambda: env.send(still(env)),
        "recv": env.recv,
    }.items():
        with pytest.raises(
            AlreadyPendingCallError, match=f"Calling `{name}`.*call to `reset`"
        ) as e:
            call()
        assert e.value.name == "reset"
    env.reset_wait()
    env.step_async(still(env))
    with pytest.raises(AlreadyPendingCallError, match="pending call to `step` to complete"):
        env.render()
    with pytest.raises(NoAsyncCallError):
        env.call_wait()
    env.step_wait()


def test_closed(fleet: Callable[..., Fleet]) -> None:
    env = fleet(WorldEnv, 2, 2).env
    env.reset()
    env.close()
    env.close()
    assert env.closed
    for call in (
        env.reset,
        lambda: env.step(still(env)),
        lambda: env.call("gravity"),
        env.render,
        lambda: env.set_attr("gravity", 1),
        lambda: env.send(still(env)),
        env.recv,
        env.reset_wait,
    ):
        with pytest.raises(ClosedEnvironmentError, match="after a call to `close"):
            call()


@pytest.mark.parametrize("num_servers", [1, 2])
def test_a_time_limit_leaves_it_usable(
    fleet: Callable[..., Fleet], gate: threading.Event, num_servers: int
) -> None:
    """Upstream, late replies are taken for those of later calls (B2)."""
    env = fleet(GateEnv, 2, num_servers).env
    env.reset(seed=0)
    env.step_async([0, 1])
    message = re.escape("The call to `step_wait` has timed out after 0.05 second(s).")
    with pytest.raises(multiprocessing.TimeoutError, match=message):
        env.step_wait(timeout=0.05)
    gate.set()
    assert env.step([0, 0])[1].tolist() == [2, 2]
    gate.clear()
    env.step_async([1, 1])
    with pytest.raises(multiprocessing.TimeoutError):
        env.step_wait(timeout=0)
    gate.set()
    observations, _ = env.reset(seed=0)
    assert observations[:, 0].tolist() == [0, 0]
    assert env.step([0, 0])[1].tolist() == [1, 1]


def test_the_limit_of_requests(fleet: Callable[..., Fleet], gate: threading.Event) -> None:
    env = fleet(GateEnv, 2, 2).env
    env.reset()
    connections = [member.connection for member in env._fleet.members]
    late = pytest.raises(errors.DeadlineExceededError, match=r"No answer to step within 0\.3 s")
    with impatient(*connections), late:
        env.step([0, 1])
    gate.set()
    assert env.step([0, 0])[1].tolist() == [2, 2]


def test_close_with_a_pending_call(fleet: Callable[..., Fleet], gate: threading.Event) -> None:
    env = fleet(CountEnv, 2, 2).env
    env.reset()
    env.step_async([0, 100])
    with pytest.warns(UserWarning, match="Calling `close` while waiting for a pending call"):
        env.close()
    env = fleet(GateEnv, 2, 2).env
    env.reset()
    env.step_async([0, 1])
    with pytest.warns(UserWarning, match="pending call to `step` to complete"):
        env.close(timeout=0.05)


@pytest.mark.parametrize("num_servers", [1, 2])
def test_copies(fleet: Callable[..., Fleet], num_servers: int) -> None:
    env = fleet(WorldEnv, 3, num_servers).env
    first, _ = env.reset(seed=1)
    second = env.step(still(env))[0]
    assert not np.shares_memory(first["box"], second["box"])
    assert not np.shares_memory(first["pair"][0], second["pair"][0])
    for batch in (first, second):
        for array in (batch["box"], batch["kind"], batch["pair"][0]):
            assert array.flags.writeable and array.flags.c_contiguous and array.flags.aligned
    kept = {key: np.copy(first[key]) for key in ("box", "kind")}
    second["box"][:] = -1
    env.step(still(env))
    assert all((first[key] == kept[key]).all() for key in kept)
    assert env.observations is not None


@pytest.mark.parametrize("num_servers", [1, 2])
def test_no_copies(fleet: Callable[..., Fleet], num_servers: int) -> None:
    env = fleet(CountEnv, 3, num_servers, copy=False).env
    first, _ = env.reset(seed=1)
    second = env.step([0, 0, 0])[0]
    assert first is second is env.observations
    assert second[:, 0].tolist() == [1, 1, 1]
    env = fleet(WorldEnv, 3, num_servers, copy=False).env
    before, _ = env.reset(seed=1)
    box = before["box"]
    after = env.step(still(env))[0]
    assert before is after and after["box"] is box
    assert after["pair"][1] == ("s1", "s1", "s1")


def test_final_observations_are_never_aliased(fleet: Callable[..., Fleet]) -> None:
    env = fleet(CountEnv, 2, 2, options={"length": 2}, autoreset_mode="SameStep", copy=False).env
    env.reset(seed=1)
    env.step([0, 0])
    observations, _, terminations, _, infos = env.step([0, 0])
    assert terminations.all()
    finals = infos["final_obs"]
    kept = [final.copy() for final in finals]
    assert not any(np.shares_memory(final, observations) for final in finals)
    env.step([0, 0])
    env.step([0, 0])
    assert all((final == copy).all() for final, copy in zip(finals, kept, strict=True))


@pytest.mark.parametrize("num_servers", [1, 2, 3])
def test_a_mask_resets_some(fleet: Callable[..., Fleet], num_servers: int) -> None:
    env = fleet(WorldEnv, 3, num_servers, autoreset_mode="Disabled").env
    begun, _ = env.reset(seed=[0, 1, 2])
    env.step(still(env))
    stepped = env.step(still(env))[0]
    stepped["box"][2] = -5  # the caller's: what comes back is what the environment said
    options = {"reset_mask": np.array([True, False, False]), "more": 1}
    kept = dict(options)
    observations, infos = env.reset(seed=[0, 1, 2], options=options)
    assert options == kept  # upstream takes the mask out of it (B5)
    same(observations["box"][0], begun["box"][0])
    assert observations["box"][:, 0].tolist() == [0, 2, 2]
    assert observations["pair"][1] == ("s0", "s2", "s2")
    assert infos["_options"].tolist() == [True, False, False]
    assert infos["options"].tolist() == [1, 0, 0]
    assert env.step(still(env))[4]["count"].tolist() == [1, 3, 3]


@pytest.mark.parametrize(
    ("mask", "error", "message"),
    [
        ([True, False, False], TypeError, "must be a numpy array"),
        (np.array([True]), ValueError, r"must have shape `\(3,\)`, got \(1,\)"),
        (np.array([1, 0, 1]), TypeError, "must have `dtype=np.bool_`, got int64"),
        (np.zeros(3, np.bool_), ValueError, "at least one True value"),
    ],
)
def test_what_is_no_mask(
    fleet: Callable[..., Fleet], mask: Any, error: type[Exception], message: str
) -> None:
    env = fleet(WorldEnv, 3, 2, autoreset_mode="Disabled").env
    env.reset()
    with pytest.raises(error, match=message):
        env.reset(options={"reset_mask": mask})


def test_reset_after_an_episode_does_not_swallow_a_step(fleet: Callable[..., Fleet]) -> None:
    """Upstream, without shared memory, the step after such a reset only resets again (B1)."""
    env = fleet(CountEnv, 2, 2, options={"length": 1}).env
    env.reset()
    assert env.step([0, 0])[2].all()
    env.reset()
    observations, rewards, *_ = env.step([0, 0])
    assert observations[:, 0].tolist() == [1, 1] and rewards.tolist() == [1, 1]


def test_observation_modes(fleet: Callable[..., Fleet]) -> None:
    def box(high: int) -> Callable[[], gymnasium.Env[Any, Any]]:
        def make() -> gymnasium.Env[Any, Any]:
            env = CountEnv()
            env.observation_space = Box(0, high, (4,), np.float64)
            return env

        return make

    env = RemoteVectorEnv([box(1), box(2)], observation_mode="different")
    assert env.observation_space.high[:, 0].tolist() == [1, 2]  # type: ignore[attr-defined]
    env.close()
    custom = (Box(0, 9, (2, 4), np.float64), Box(0, 3, (4,), np.float64))
    env = RemoteVectorEnv([box(1), box(2)], observation_mode=custom)
    assert (env.observation_space, env.single_observation_space) == custom
    env.close()
    with pytest.raises(RuntimeError, match="use `observation_mode='different'` instead"):
        RemoteVectorEnv([box(1), box(2)])


def test_members_that_do_not_go_together(fleet: Callable[..., Fleet]) -> None:
    turn = iter([WorldEnv, CountEnv])
    with pytest.raises(RuntimeError, match="action space different"):
        fleet(lambda: next(turn)(), 2, 2)


def test_dropped_without_close() -> None:
    env = RemoteVectorEnv([CountEnv])
    env.reset()
    finalizer = env._finalizer
    del env
    assert not finalizer.alive
