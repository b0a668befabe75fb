"""The testbed itself: engines start, fill up, refuse, and leave nothing behind."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import textwrap
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import engines
from tests.support.waiting import eventually


ROOT = Path(__file__).parents[1]
ENGINE = ROOT / "tests" / "testbed" / "engine.py"
AS_USER = ROOT / "tests" / "testbed" / "as_user.sh"

NO_SPACE = "no space left on device"

root_only = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can make namespaces and become another user"
)


def run(*command: object, timeout_s: float = 60.0, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in command],
        cwd=ROOT,
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout_s,
    )


def runs(pid: str) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"  # dead, but nobody has asked how it went


def traces(directory: str) -> list[str]:
    """Return what is left of a small engine: files, processes, mounts, control groups."""
    name = Path(directory).name
    found = [directory] if os.path.exists(directory) else []
    for process in Path("/proc").glob("[0-9]*"):
        for file in ("cmdline", "mountinfo"):
            try:
                if name.encode() in (process / file).read_bytes():
                    found.append(str(process / file))
            except OSError:  # gone meanwhile, or another user's
                continue
    return found + [str(path) for path in Path("/sys/fs/cgroup").glob(f"**/{name}")]


# -- what is required ---------------------------------------------------------------------------


@pytest.mark.parametrize("required", ["docker", "other,docker", "docker other"])
def test_what_is_required_fails_where_it_is_missing(
    required: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(engines.REQUIRE, required)
    with pytest.raises(pytest.fail.Exception, match="asks for docker: it is cold"):
        engines.missing("docker", "it is cold")


@pytest.mark.parametrize("required", ["", "other"])
def test_what_is_not_required_is_skipped(required: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(engines.REQUIRE, required)
    with pytest.raises(pytest.skip.Exception, match="it is cold"):
        engines.missing("docker", "it is cold")


def test_without_an_engine_there_is_no_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(engines.REQUIRE, raising=False)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/sock")
    with pytest.raises(pytest.skip.Exception, match="No such file"):
        engines.docker_client()


def test_a_test_that_uses_the_engine_is_marked(docker: Any, request: pytest.FixtureRequest) -> None:
    assert docker.ping()
    assert request.node.get_closest_marker("container") is not None


# -- this machine's engine ----------------------------------------------------------------------


def test_an_engine_that_runs_is_left_alone(docker: Any, tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    for command in ("up", "up", "down", "down"):
        done = run(sys.executable, ENGINE, command, "--state", state)
        assert done.returncode == 0, done.stdout
    assert not list(tmp_path.iterdir())
    assert docker.ping()


def test_only_the_process_that_was_noted_is_ended(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as bystander:
        state.write_text(f'{{"pid": {bystander.pid}, "birth": "1"}}')
        assert run(sys.executable, ENGINE, "down", "--state", state).returncode == 0
        assert bystander.poll() is None
        bystander.kill()
    assert not state.exists()


def test_an_engine_elsewhere_is_not_started(tmp_path: Path) -> None:
    done = run(sys.executable, ENGINE, "up", DOCKER_HOST="tcp://127.0.0.1:1")
    assert done.returncode == 1
    assert "Connection refused" in done.stdout


@root_only
@pytest.mark.timeout(400)  # it is started twice, and that may take a minute
@pytest.mark.container  # because of the program, not of the engine that runs
def test_an_engine_is_started_and_ended(tmp_path: Path) -> None:
    script = f"""
        set -euo pipefail
        for directory in /run /etc/docker /var/lib/docker; do mount -t tmpfs tmpfs "$directory"; done
        engine() {{ {sys.executable} {ENGINE} "$@" --state {tmp_path}/state.json; }}
        pid() {{ sed -E 's/.*"pid": ([0-9]+).*/\\1/' {tmp_path}/state.json; }}
        engine up
        engine up
        kill -KILL "$(pid)"
        while [[ -d /proc/$(pid) ]]; do sleep 0.02; done
        # Their numbers are another process's by now.
        echo $$ | tee /var/run/docker.pid >/var/run/docker/containerd/containerd.pid
        engine up
        engine down
        engine down
        [[ ! -e /var/run/docker.pid ]]
    """
    command = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    done = run(*command, "bash", "-c", textwrap.dedent(script), timeout_s=380, DOCKER_HOST="")
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("starting dockerd") == 2, done.stdout
    assert done.stdout.count("ending the engine") == 1, done.stdout
    assert not list(tmp_path.iterdir())


# -- another user -------------------------------------------------------------------------------


@root_only
@pytest.mark.container
def test_another_user_may_use_the_daemon() -> None:
    code = "import docker, os; print(docker.from_env().ping(), os.getuid() > 0, os.getcwd())"
    done = run(AS_USER, sys.executable, "-c", code)
    assert done.stdout.split() == ["True", "True", str(ROOT)]


@root_only
def test_another_user_leaves_nothing_behind() -> None:
    script = "touch mark $HOME/mark $TMPDIR/mark; echo $HOME; setsid sleep 60 & echo $!; exit 7"
    done = run(AS_USER, "--no-docker", "bash", "-c", f"exec 2>&1; {script}")
    assert done.returncode == 7, done.stdout
    home, pid = done.stdout.split()
    assert not (ROOT / "mark").exists()
    assert not Path(home).parent.exists()
    assert eventually(lambda: not runs(pid))


def test_a_daemon_that_may_not_be_used() -> None:
    code = """
        import os, socket
        try:
            socket.socket(socket.AF_UNIX).connect(os.environ["DOCKER_HOST"].partition("://")[2])
        except OSError as error:
            print(os.geteuid() > 0, type(error).__name__)
    """
    with engines.forbidden_daemon() as host:
        done = engines.run_as_nobody(textwrap.dedent(code), {"DOCKER_HOST": host})
    assert done.stdout.split() == ["True", "PermissionError"], done.stderr
    assert not os.path.exists(host.removeprefix("unix://"))


# -- a small disk -------------------------------------------------------------------------------


@pytest.fixture
def image(docker: Any) -> Iterator[str]:
    name = f"openenv-testbed-{uuid.uuid4().hex[:8]}:test"
    engines.image_of(docker, name, {"data": os.urandom(1 << 20)})
    yield name
    docker.images.remove(name)


@pytest.mark.timeout(300)
def test_a_disk_that_is_full(docker: Any, image: str) -> None:
    import docker as sdk

    big = os.urandom(2 << 20)
    context = {"Dockerfile": b"FROM scratch\nCOPY big /\n", "big": big}

    def build() -> Any:
        archive = engines.archive_of(context)
        return engine.client.images.build(fileobj=archive, custom_context=True)

    with engines.small_engine(16 << 20) as engine:
        assert engine.client.info()["DockerRootDir"] != docker.info()["DockerRootDir"]
        assert 8 << 20 < engine.free_bytes() <= 16 << 20
        engine.copy_image(docker, image)
        assert engine.client.containers.create(image, "/data").attrs["State"]["Status"] == "created"

        engine.fill(leave_bytes=1 << 20)
        assert 0 < engine.free_bytes() <= 1 << 20
        for action in (build, lambda: engines.image_of(engine.client, "big:1", {"big": big})):
            with pytest.raises(sdk.errors.APIError, match=NO_SPACE):
                action()
        with pytest.raises(sdk.errors.ImageLoadError, match=NO_SPACE):
            engine.copy_image(docker, image)

        def full() -> bool:
            with contextlib.suppress(OSError):  # the engine was faster
                engine.fill()  # again: of what it could not use, it lets go when it likes
            return engine.free_bytes() == 0

        assert eventually(full)
        with pytest.raises(sdk.errors.APIError, match=NO_SPACE):
            engine.client.containers.create(image, "/data")

        engine.relieve()
        build()
        engine.client.containers.create(image, "/data")
    directory = os.path.dirname(engine.host.removeprefix("unix://"))
    assert eventually(lambda: not traces(directory)), traces(directory)
    assert docker.ping()


@pytest.mark.timeout(300)
def test_a_small_engine_ends_when_a_test_fails() -> None:
    with pytest.raises(ZeroDivisionError), engines.small_engine(16 << 20) as engine:
        _ = 1 // 0
    directory = os.path.dirname(engine.host.removeprefix("unix://"))
    assert eventually(lambda: not traces(directory)), traces(directory)


@root_only
@pytest.mark.timeout(300)
@pytest.mark.container
def test_a_small_engine_ends_when_its_owner_is_killed() -> None:
    code = """
        import time
        from tests.support.engines import small_engine
        with small_engine(16 << 20) as engine:
            print(engine.host, flush=True)
            time.sleep(60)
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as owner:
        assert owner.stdout is not None
        directory = os.path.dirname(owner.stdout.readline().strip().removeprefix("unix://"))
        assert os.path.exists(directory)
        owner.kill()
    assert eventually(lambda: not traces(directory)), traces(directory)


@root_only
@pytest.mark.swarm
def test_a_swarm_ends_when_its_owner_is_killed() -> None:
    code = """
        import time
        from tests.testbed.swarm import swarm
        with swarm(2) as made:
            assert len(made.manager.nodes.list()) == 2
            print(made.directory, made.subnet, flush=True)
            time.sleep(60)
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as owner:
        assert owner.stdout is not None
        directory, subnet = owner.stdout.readline().split()
        assert os.path.exists(directory)
        owner.kill()

    def left() -> list[str]:
        addresses = run("ip", "-o", "address").stdout.splitlines()
        return traces(directory) + [line for line in addresses if f" {subnet}." in line]

    assert eventually(lambda: not left()), left()
