"""Servers in processes: they start, report, and never outlive their owner."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import gymnasium
import pytest

import openenv_gym  # noqa: F401  # registers the ids
from openenv_gym import errors


ROOT = Path(__file__).parents[2]


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(pids: list[int], within_s: float = 10.0) -> bool:
    end_s = time.monotonic() + within_s
    while any(map(alive, pids)) and time.monotonic() < end_s:
        time.sleep(0.02)
    return not any(map(alive, pids))


def server_pid(env: Any) -> int:
    return int(str(env.unwrapped.connection.address).rpartition("[")[2].rstrip("]"))


def make(**kwargs: Any) -> Any:
    return gymnasium.make("openenv/CartPole-v1", provider="process", **kwargs)


def owner(body: str) -> tuple[subprocess.Popen[str], list[int]]:
    """Start a trainer that prints its servers' process ids and then runs `body`."""
    script = """
        import os, signal, sys, time
        import gymnasium, openenv_gym

        def pid(env):
            return str(env.unwrapped.connection.address).rpartition("[")[2].rstrip("]")

        envs = [gymnasium.make("openenv/CartPole-v1", provider="process") for _ in range(2)]
        for env in envs:
            env.reset(seed=0)
        guardian = openenv_gym.providers.guardian.guardian._process.pid
        print(*map(pid, envs), guardian, flush=True)
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script) + textwrap.dedent(body)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert process.stdout is not None
    pids = [int(word) for word in process.stdout.readline().split()]
    assert len(pids) == 3, process.communicate()[1]
    return process, pids


@pytest.mark.parametrize(
    ("body", "signum"),
    [
        pytest.param("time.sleep(60)", signal.SIGKILL, id="SIGKILL"),
        pytest.param("time.sleep(60)", signal.SIGINT, id="Ctrl-C"),
        pytest.param("time.sleep(60)", signal.SIGTERM, id="SIGTERM"),
        pytest.param("raise SystemError('crash')", None, id="exception"),
        pytest.param("os._exit(3)", None, id="os._exit"),
        pytest.param("", None, id="end without close"),
        pytest.param("del envs, env; time.sleep(0.2)", None, id="garbage"),
        pytest.param(
            # A forked child is left behind, holding every descriptor that it inherited.
            "os.fork() == 0 and (time.sleep(5), os._exit(0)); time.sleep(60)",
            signal.SIGKILL,
            id="SIGKILL with a forked child",
        ),
    ],
)
def test_nothing_outlives_its_owner(body: str, signum: int | None) -> None:
    process, pids = owner(body)
    if signum is not None:
        time.sleep(0.1)
        process.send_signal(signum)
    process.wait(20)
    assert gone(pids)
    for stream in (process.stdin, process.stdout, process.stderr):
        assert stream is not None
        stream.close()


def test_a_server_that_holds_the_interpreter_is_killed_too(tmp_path: Path) -> None:
    (tmp_path / "stuck.py").write_text(
        "import gymnasium\n"
        "class Stuck(gymnasium.Env):\n"
        "    action_space = observation_space = gymnasium.spaces.Discrete(2)\n"
        "    def reset(self, *, seed=None, options=None):\n"
        "        return 0, {}\n"
        "    def step(self, action):\n"
        "        10 ** (10 ** 8)  # one C call, minutes long, with the lock held\n"
        "gymnasium.register('Stuck-v0', Stuck)\n"
    )
    script = f"""
        import sys; sys.path.insert(0, {str(tmp_path)!r})
        import gymnasium, openenv_gym
        env = gymnasium.make("openenv/Gymnasium-v0", env_id="stuck:Stuck-v0", provider="process")
        env.reset()
        print(str(env.unwrapped.connection.address).rpartition("[")[2].rstrip("]"), flush=True)
        env.step(0)
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    time.sleep(0.3)
    assert alive(pid)
    process.kill()
    process.wait(10)
    process.stdout.close()
    assert gone([pid])


def test_a_server_killed_in_a_step_is_a_typed_error_with_its_end() -> None:
    env = make()
    env.reset(seed=0)
    pid = server_pid(env)
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(errors.ConnectionLostError, match="was killed by SIGKILL"):
        for _ in range(3):
            env.step(0)
    with pytest.raises(errors.SessionClosedError):
        env.reset()
    env.close()
    assert gone([pid])


def test_a_server_that_cannot_start_shows_its_last_lines() -> None:
    with pytest.raises(errors.ServerStartError, match="no_such_env_package") as caught:
        from openenv_gym.registration.catalogue import CatalogueEntry
        from openenv_gym.registration.make import make_env

        make_env(
            CatalogueEntry(id="openenv/X-v0", package="no_such_env_package"), provider="process"
        )
    assert "UnknownEnvironmentError" in caught.value.log


def test_a_forked_child_neither_uses_nor_closes_its_parents_session() -> None:
    env = make()
    env.reset(seed=0)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            env.step(0)
        except errors.ForkedSessionError:
            env.close()
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    observation = env.step(0)[0]
    expected = gymnasium.make("CartPole-v1")
    expected.reset(seed=0)
    assert (observation == expected.step(0)[0]).all()
    env.close()


def test_a_forked_child_makes_its_own() -> None:
    env = make()
    env.reset(seed=0)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            own = make()
            own.reset(seed=0)
            own.step(0)
            own.close()
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    env.step(0)
    pid = server_pid(env)
    env.close()
    assert gone([pid])


def test_module_form_ids_work_in_spawned_workers() -> None:
    envs = gymnasium.make_vec(
        "openenv_gym:openenv/CartPole-v1",
        num_envs=2,
        vectorization_mode="async",
        vector_kwargs={"context": "spawn"},
        provider="process",
    )
    local = gymnasium.make_vec("CartPole-v1", num_envs=2, vectorization_mode="sync")
    assert (envs.reset(seed=5)[0] == local.reset(seed=5)[0]).all()
    assert (envs.step([0, 1])[0] == local.step([0, 1])[0]).all()
    envs.close()
    local.close()
