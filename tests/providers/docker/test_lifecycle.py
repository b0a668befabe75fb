"""No container outlives its owner, however he goes."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import uuid
from pathlib import Path
from typing import Any

import pytest

from openenv_gym.providers.docker.daemon import sweep
from tests.support.images import image
from tests.support.owners import Owner
from tests.support.waiting import eventually


pytestmark = pytest.mark.container

ROOT = Path(__file__).parents[3]

_OWNER = """
    import os, signal, sys, time
    import gymnasium, openenv_gym

    envs = [gymnasium.make("openenv/Echo-v0", provider="docker") for _ in range({count})]
    for env in envs:
        env.reset()
    print("ready", flush=True)
    sys.stdin.readline()  # or it might end before anybody knows what it has
"""


def script(body: str, count: int) -> str:
    """Return a trainer's code."""
    return textwrap.dedent(_OWNER).format(count=count) + textwrap.dedent(body)


@pytest.mark.parametrize(
    ("body", "signum", "count"),
    [
        pytest.param("time.sleep(600)", signal.SIGKILL, 8, id="SIGKILL"),
        pytest.param("time.sleep(600)", signal.SIGINT, 2, id="Ctrl-C"),
        pytest.param("time.sleep(600)", signal.SIGTERM, 2, id="SIGTERM"),
        pytest.param("raise RuntimeError('oh')", None, 2, id="exception"),
        pytest.param("os._exit(3)", None, 2, id="os._exit"),
        pytest.param("", None, 2, id="end without close"),
        pytest.param("[env.close() for env in envs]", None, 2, id="close"),
        pytest.param(
            # It still holds every descriptor that it inherited.
            "os.fork() == 0 and (time.sleep(100), os._exit(0)); time.sleep(600)",
            signal.SIGKILL,
            2,
            id="SIGKILL with a forked child",
        ),
    ],
)
def test_nothing_outlives_its_owner(docker: Any, body: str, signum: int | None, count: int) -> None:
    image("echo_env")
    owner = Owner(docker, script(body, count))
    if signum is not None:
        assert len(owner.containers) == count
        owner.process.send_signal(signum)
    owner.end()
    assert eventually(lambda: not owner.leftovers(), 60), owner.leftovers()


def test_a_forked_child_that_exits_first_takes_nothing_along(docker: Any) -> None:
    image("echo_env")
    body = """
        child = os.fork()
        if child == 0:
            sys.exit(0)  # runs every finalizer
        os.waitpid(child, 0)
        print("child is gone", flush=True)
        sys.stdin.readline()
        assert [env.step("still there")[0]["echoed_message"] for env in envs] == ["still there"] * 2
        [env.close() for env in envs]
        print("done", flush=True)
    """
    done = subprocess.run(
        [sys.executable, "-c", script(body, 2)],
        input="\n\n",
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.stdout.endswith("done\n"), done.stderr


@pytest.mark.parametrize("reach", ["socket", "exec", "port"])
def test_a_server_ends_by_itself_where_its_guardian_was_killed_too(
    docker: Any, reach: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    image("echo_env")
    place = f"test:{uuid.uuid4().hex}"  # on a machine of its own: nobody else sweeps
    body = f"""
        from openenv_gym.providers import DockerProvider, owner
        owner._place = lambda: {place!r}
        env = gymnasium.make("openenv/Echo-v0", provider=DockerProvider(reach={reach!r}))
        env.reset()
        from openenv_gym.providers.guardian import guardian
        os.kill(guardian._process.pid, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    owner = Owner(docker, script(body, 0))
    try:
        owner.end()
        assert eventually(lambda: [each["State"] for each in owner.find()] == ["exited"])
        mounts = [mount["Source"] for each in owner.find() for mount in each["Mounts"]]
        assert len(mounts) == (reach == "socket")
        monkeypatch.setattr("openenv_gym.providers.owner._place", lambda: place)
        sweep(docker)  # as the next process does that uses the daemon
        assert owner.find() == []
        assert not any(Path(mount).parent.exists() for mount in mounts)
    finally:
        for each in owner.find():
            docker.api.remove_container(each["Id"], force=True)


@pytest.mark.timeout(600)  # it starts two dozen
def test_interrupted_starts_leave_nothing(docker: Any) -> None:
    """Ctrl-C at any moment, also while the daemon is creating the container."""
    image("echo_env")
    body = """
        import threading
        gymnasium.make("openenv/Echo-v0", provider="docker").close()  # everything is imported
        for number in range(24):
            timer = threading.Timer(0.002 * number, os.kill, [os.getpid(), signal.SIGINT])
            try:
                timer.start()
                gymnasium.make("openenv/Echo-v0", provider="docker").close()
                time.sleep(5)
            except KeyboardInterrupt:
                timer.join()
        print("ready", flush=True)
        time.sleep(600)
    """
    owner = Owner(docker, script(body, 0))
    assert owner.process.stdout is not None
    ready = owner.process.stdout.readline()
    assert ready == "ready\n", owner.process.communicate(timeout=60)[1]
    assert eventually(lambda: owner.find() == [])
    owner.process.kill()
    owner.end()
