"""Servers in processes: they start, report, and never outlive their owner."""

from __future__ import annotations

import gc
import os
import resource
import signal
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path
from typing import Any

import gymnasium
import pytest

import openenv_gym  # noqa: F401  # registers the ids
from openenv_gym import errors
from openenv_gym.providers import ServerTarget
from openenv_gym.providers.guardian import Guardian
from openenv_gym.providers.process import ProcessProvider
from openenv_gym.providers.thread import ThreadProvider
from tests.support.waiting import eventually


ROOT = Path(__file__).parents[2]


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(pids: list[int], within_s: float = 60.0) -> bool:
    return eventually(lambda: not any(map(alive, pids)), within_s)


def server_pid(env: Any) -> int:
    return int(str(env.unwrapped.openenv.connection.address).rpartition("[")[2].rstrip("]"))


def fork() -> int:
    with warnings.catch_warnings():
        # Earlier tests may have left threads here, of which Python warns from 3.12 on.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def make(**kwargs: Any) -> Any:
    return gymnasium.make("openenv/CartPole-v1", provider="process", **kwargs)


def owner(body: str) -> tuple[subprocess.Popen[str], list[int]]:
    """Start a trainer that prints its servers' process ids and then runs `body`."""
    script = """
        import os, signal, sys, time
        import gymnasium, openenv_gym

        def pid(env):
            return str(env.unwrapped.openenv.connection.address).rpartition("[")[2].rstrip("]")

        env = gymnasium.make("openenv/CartPole-v1", provider="process")
        env.reset(seed=0)
        guardian = openenv_gym.providers.guardian.guardian._process.pid
        print(pid(env), guardian, flush=True)
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
    assert len(pids) == 2, process.communicate()[1]
    return process, pids


WAITING = "print('waiting', flush=True); time.sleep(100)"


@pytest.mark.parametrize(
    ("body", "signum"),
    [
        pytest.param(WAITING, signal.SIGINT, id="Ctrl-C"),
        pytest.param(WAITING, signal.SIGTERM, id="SIGTERM"),
        pytest.param("os._exit(3)", None, id="os._exit"),
        pytest.param("", None, id="end without close"),
        pytest.param("del env", None, id="garbage"),
        pytest.param(
            # A forked child is left behind, holding every descriptor that it inherited, until the
            # test has seen enough.
            f"os.fork() == 0 and (sys.stdin.read(), os._exit(0)); {WAITING}",
            signal.SIGKILL,
            id="SIGKILL with a forked child",
        ),
    ],
)
def test_nothing_outlives_its_owner(body: str, signum: int | None) -> None:
    process, pids = owner(body)
    if signum is not None:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(signum)
    process.wait(60)
    assert gone(pids)
    for stream in (process.stdin, process.stdout, process.stderr):
        assert stream is not None
        stream.close()


def test_a_server_that_holds_the_interpreter_is_killed_too(tmp_path: Path) -> None:
    (tmp_path / "stuck.py").write_text(
        "import ctypes, pathlib\n"
        "import gymnasium\n"
        "libc = ctypes.PyDLL(None)  # which keeps the lock during a call\n"
        "class Stuck(gymnasium.Env):\n"
        "    action_space = observation_space = gymnasium.spaces.Discrete(2)\n"
        "    def reset(self, *, seed=None, options=None):\n"
        "        return 0, {}\n"
        "    def step(self, action):\n"
        f"        pathlib.Path({str(tmp_path / 'mark')!r}).touch()\n"
        "        libc.sleep(600)\n"
        "gymnasium.register('Stuck-v0', Stuck)\n"
    )
    script = f"""
        import sys; sys.path.insert(0, {str(tmp_path)!r})
        import gymnasium, openenv_gym
        env = gymnasium.make("openenv/Gymnasium-v0", env_id="stuck:Stuck-v0", provider="process")
        env.reset()
        print(str(env.unwrapped.openenv.connection.address).rpartition("[")[2].rstrip("]"), flush=True)
        env.step(0)
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    assert eventually((tmp_path / "mark").exists)
    assert alive(pid)
    process.kill()
    process.wait(60)
    process.stdout.close()
    assert gone([pid])


@pytest.mark.parametrize(
    ("signum", "name"), [(signal.SIGKILL, "SIGKILL"), (40, "signal 40")], ids=["named", "not named"]
)
def test_a_server_killed_in_a_step_is_a_typed_error_with_its_end(signum: int, name: str) -> None:
    env = make()
    env.reset(seed=0)
    pid = server_pid(env)
    os.kill(pid, signum)
    with pytest.raises(errors.ConnectionLostError, match=f"was killed by {name}"):
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
    child = fork()
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
    child = fork()
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


HELPERS = """
import multiprocessing, os, pathlib, subprocess, sys, time
import gymnasium

class Helpers(gymnasium.Env):
    action_space = observation_space = gymnasium.spaces.Discrete(2)

    def __init__(self, mark=None):
        self.mark = mark

    def reset(self, *, seed=None, options=None):
        pids = []
        if not self.mark:
            fork = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,))
            fork.start()
            command = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]
            own = subprocess.Popen(command, start_new_session=True)
            pids = [fork.pid, own.pid]
        return 0, {"pids": pids}

    def step(self, action):
        return 0, 0.0, False, False, {}

    def close(self):
        if self.mark:
            pathlib.Path(self.mark).write_text("closed")

gymnasium.register("Helpers-v0", Helpers)
"""


@pytest.fixture
def helpers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "helpers_world.py").write_text(HELPERS)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def make_helpers(**kwargs: Any) -> Any:
    return gymnasium.make(
        "openenv/Gymnasium-v0",
        env_id="helpers_world:Helpers-v0",
        provider="process",
        disable_env_checker=True,
        **kwargs,
    )


def test_what_the_environment_started_goes_with_the_server(helpers: Path) -> None:
    env = make_helpers()
    pids = list(env.reset()[1]["pids"])
    assert all(map(alive, pids))
    env.close()
    assert gone(pids)


def test_a_killed_server_is_noticed_though_a_forked_helper_lives(helpers: Path) -> None:
    env = make_helpers(timeout_s=90.0)
    pids = list(env.reset()[1]["pids"])
    os.kill(server_pid(env), signal.SIGKILL)
    with pytest.raises(errors.ConnectionLostError, match="was killed by SIGKILL"):
        env.step(0)
    env.close()
    assert gone(pids)


def test_what_the_environment_started_goes_with_the_owner(helpers: Path) -> None:
    script = f"""
        import sys; sys.path.insert(0, {str(helpers)!r})
        import gymnasium, openenv_gym
        env = gymnasium.make(
            "openenv/Gymnasium-v0", env_id="helpers_world:Helpers-v0", provider="process"
        )
        print(*env.reset()[1]["pids"], flush=True)
        sys.stdin.read()
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as process:
        assert process.stdout is not None
        pids = [int(word) for word in process.stdout.readline().split()]
        assert len(pids) == 2
        process.kill()
    assert gone(pids)


def test_at_exit_environments_are_closed_though_finalizers_run_last(helpers: Path) -> None:
    mark = helpers / "mark"
    script = f"""
        import sys, weakref; sys.path.insert(0, {str(helpers)!r})
        class Early: pass
        early = Early()
        weakref.finalize(early, int)  # registers weakref's atexit before ours
        import gymnasium, openenv_gym
        env = gymnasium.make(
            "openenv/Gymnasium-v0",
            env_id="helpers_world:Helpers-v0", mark={str(mark)!r}, provider="process",
        )
        env.reset()
    """
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    assert "ResourceWarning" not in done.stderr
    assert mark.read_text() == "closed"


def test_the_working_directory_shadows_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("random", "json", "gymnasium"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong module')")
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    monkeypatch.chdir(tmp_path)
    env = make()
    env.reset(seed=0)
    env.close()


def test_modules_of_an_interactive_owner_are_found(
    helpers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", ["", *(e for e in sys.path if e != str(helpers))])
    monkeypatch.chdir(helpers)
    env = make_helpers(mark=str(helpers / "mark"))
    env.reset()
    env.close()


def test_an_owner_without_standard_streams() -> None:
    read_end, write_end = os.pipe()
    script = f"""
        import os
        for fd in (0, 1, 2):
            os.close(fd)
        import gymnasium, openenv_gym
        env = gymnasium.make("openenv/CartPole-v1", provider="process")
        env.reset(seed=0)
        env.step(0)
        env.close()
        os.write({write_end}, b"done")
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)], pass_fds=[write_end], cwd=ROOT
    ) as process:
        os.close(write_end)
        with os.fdopen(read_end, "rb") as reader:
            assert reader.read() == b"done"
    assert process.returncode == 0


@pytest.mark.parametrize("provider", [ProcessProvider(), ThreadProvider()], ids=lambda p: p.name)
@pytest.mark.parametrize("left", range(0, 12, 2))
def test_without_descriptors_it_cannot_start(provider: Any, left: int) -> None:
    guardian = Guardian()  # fresh, so that it has to be started as well
    if provider.name == "process":
        import openenv_gym.providers.process as module

        module.guardian, kept = guardian, module.guardian
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    gc.collect()  # nothing that an earlier test has left gives descriptors back meanwhile
    probe = os.open(os.devnull, os.O_RDONLY)
    os.close(probe)
    server = None
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (probe + left, hard))
        try:
            server = provider.start(ServerTarget("gymnasium"))
        except errors.ServerStartError as error:
            assert "Too many open files" in str(error)
        else:
            assert left > 0
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        if server is not None:
            server.stop()
        if provider.name == "process":
            module.guardian = kept
            guardian._drop()


def test_the_guardian_forgets_while_garbage_is_collected_in_watch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    guardian = Guardian()
    start = subprocess.Popen

    def collecting(*args: Any, **kwargs: Any) -> Any:
        gc.collect()
        guardian.forget("container:old")  # as a finalizer does
        return start(*args, **kwargs)

    monkeypatch.setattr(subprocess, "Popen", collecting)
    guardian._watched.add("container:old")
    guardian.watch(f"process:{os.getpid()}:none")
    assert guardian._watched == {f"process:{os.getpid()}:none"}
    guardian.forget(f"process:{os.getpid()}:none")
    guardian._drop()


def test_a_server_stopped_while_it_stops() -> None:
    server: Any = ProcessProvider().start(ServerTarget("gymnasium"))
    wait = server._process.wait

    def collecting(timeout: float) -> int:
        server.stop()
        return int(wait(timeout))

    server._process.wait = collecting
    server.stop()
    assert gone([server.pid], 0.0)
    server.stop()
