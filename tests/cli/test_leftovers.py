"""``openenv-gym ps`` and ``clean``: all that was started is found, and nothing else is touched."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from openenv_gym.cli.main import main
from openenv_gym.errors import ProviderUnavailableError
from openenv_gym.providers import local
from openenv_gym.providers.guardian import make_mount, mount_path
from openenv_gym.providers.owner import Owner
from tests.support.waiting import eventually


TRAINER = """
import sys, time
from openenv_gym.providers import ProcessProvider, ServerTarget
server = ProcessProvider().start(ServerTarget("echo_env"))
print(server.pid, flush=True)
time.sleep(300)
"""


def _call(*arguments: str) -> Any:
    """Run a command with ``--json``; only what belongs to processes is looked at."""
    done = CliRunner().invoke(main, [*arguments, "--json", "--provider", "process"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def _names(items: list[dict[str, Any]], kind: str) -> list[str]:
    return [item["name"] for item in items if item["kind"] == kind]


@pytest.fixture
def trainer() -> Iterator[tuple[int, int]]:
    """Return the process id of a trainer, and that of its server."""
    process = subprocess.Popen([sys.executable, "-c", TRAINER], stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout is not None
        server = int(process.stdout.readline())
        yield process.pid, server
        with contextlib.suppress(OSError):
            process.kill()
    assert eventually(lambda: not Path(f"/proc/{server}").exists())


def _guardian_of(pid: int) -> int:
    (item,) = [i for i in local.processes("guardian") if i.owner is not None and i.owner.pid == pid]
    return int(item.name.partition(":")[0])


def test_what_a_living_process_uses_is_shown_and_kept(trainer: tuple[int, int]) -> None:
    owner, server = trainer
    items = _call("ps", "--owner", str(owner))["items"]
    assert {item["kind"] for item in items} == {"server", "guardian"}
    assert all(item["in_use"] for item in items)
    assert f"pid {server}" in next(item["detail"] for item in items if item["kind"] == "server")
    done = _call("clean", "--owner", str(owner))
    assert done["removed"] == [] and len(done["kept"]) == 2
    os.kill(server, 0)
    done = _call("clean", "--owner", str(owner), "--all")
    assert len(done["removed"]) == 2 and done["kept"] == []
    assert _call("ps", "--owner", str(owner))["items"] == []


def test_what_has_outlived_its_owner_is_removed(trainer: tuple[int, int]) -> None:
    owner, server = trainer
    os.kill(server, signal.SIGSTOP)  # so that it does not end by itself
    os.kill(_guardian_of(owner), signal.SIGKILL)  # and nobody ends it
    os.kill(owner, signal.SIGKILL)

    def alone() -> bool:
        items = _call("ps", "--owner", str(owner))["items"]
        return [item["in_use"] for item in items] == [False]

    assert eventually(alone)
    would = _call("clean", "--owner", str(owner), "--dry-run")["would_remove"]
    assert len(would) == 1 and Path(f"/proc/{server}").exists()
    assert len(_call("clean", "--owner", str(owner))["removed"]) == 1
    assert _call("ps", "--owner", str(owner))["items"] == []


@pytest.fixture
def directory() -> Iterator[str]:
    path = mount_path()
    make_mount(path)
    yield path
    with contextlib.suppress(OSError):
        (Path(path) / "owner").unlink()
    for each in (Path(path) / "run", Path(path)):
        with contextlib.suppress(OSError):
            each.rmdir()


def test_directories_of_sockets(directory: str) -> None:
    found = {item["name"]: item for item in _call("ps")["items"]}
    assert found[directory]["owner_pid"] == os.getpid() and found[directory]["in_use"]
    gone = Owner(1 << 30, "1", Owner.current().place)
    (Path(directory) / "owner").write_text(str(gone))
    (Path(directory) / "run" / "s").touch()
    assert directory in _names(_call("clean", "--owner", str(gone.pid))["removed"], "directory")
    assert not Path(directory).exists()


def test_a_directory_with_something_else_stays(directory: str) -> None:
    gone = Owner((1 << 30) + os.getpid(), "1", Owner.current().place)
    (Path(directory) / "owner").write_text(str(gone))
    precious = Path(directory) / "run" / "precious"
    precious.touch()
    command = ["clean", "--json", "--provider", "process", "--owner", str(gone.pid)]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 1
    assert "holds something" in json.loads(done.stdout)["failed"][0]["error"]
    assert precious.exists()
    precious.unlink()
    _call("clean", "--owner", str(gone.pid))


def test_directories_of_others_are_not_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "openenv-notes").mkdir()
    (tmp_path / f"openenv-{uuid.uuid4().hex}").mkdir()  # of nobody, and made just now
    mine = {str(path) for path in tmp_path.iterdir()}
    assert not mine & {item.name for item in local.directories()}


def test_a_table_for_people(directory: str) -> None:
    done = CliRunner().invoke(main, ["ps", "--provider", "process", "--owner", str(os.getpid())])
    assert done.exit_code == 0
    assert done.stdout.splitlines()[0].split()[:3] == ["PROVIDER", "KIND", "NAME"]
    assert directory in done.stdout


def test_wrong_usage() -> None:
    assert CliRunner().invoke(main, ["ps", "--provider", "moon"]).exit_code == 2


@pytest.mark.container
def test_containers(docker: Any) -> None:
    from openenv_gym.providers import DockerProvider
    from openenv_gym.providers.docker.daemon import OWNER_LABEL
    from tests.support.engines import containers_there
    from tests.support.images import python_image

    gone = Owner((1 << 30) + os.getpid(), "1", Owner.current().place)
    elsewhere = Owner(os.getpid(), "1", "another machine")
    containers = [
        docker.containers.create(python_image(), ["true"], labels=labels)
        for labels in (
            {OWNER_LABEL: str(gone)},
            {OWNER_LABEL: str(Owner.current())},
            {OWNER_LABEL: str(elsewhere)},
            {"com.example": "somebody else's"},
        )
    ]
    try:
        provider = DockerProvider()
        found = {item.name: item for item in provider.inventory()}
        # Whoever else uses the daemon for the first time removes what has lost its owner.
        for _ in range(10):
            if containers[0].id[:12] in found:
                break
            labels = {OWNER_LABEL: str(gone)}
            containers[0] = docker.containers.create(python_image(), ["true"], labels=labels)
            found = {item.name: item for item in provider.inventory()}
        names = [container.id[:12] for container in containers]
        assert [found[name].in_use if name in found else "not ours" for name in names] == [
            *(False, True, None, "not ours")
        ]
        command = ["clean", "--json", "--provider", "docker", "--owner", str(gone.pid)]
        done = CliRunner().invoke(main, command)
        removed = _names(json.loads(done.stdout)["removed"], "container")
        assert removed in (names[:1], [])  # which somebody else may have done just then
        assert eventually(lambda: containers[0].id not in containers_there(docker))
        assert {container.id for container in containers[1:]} <= containers_there(docker)
    finally:
        for container in containers:
            with contextlib.suppress(Exception):
                container.remove(force=True)


def test_a_provider_that_cannot_be_asked_is_one_word_until_somebody_names_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(name: str) -> Any:
        raise ProviderUnavailableError(f"{name} has no package.", hint="Install it.")

    monkeypatch.setattr("openenv_gym.providers.inventory._provider", refuse)
    done = CliRunner().invoke(main, ["ps"])
    assert done.exit_code == 0
    (line,) = [line for line in done.output.splitlines() if "not asked" in line]
    assert "kubernetes, daytona (`openenv-gym ps --provider thread` says why)" in line
    done = CliRunner().invoke(main, ["ps", "--provider", "daytona"])
    assert "not asked: daytona: daytona has no package. Install it." in done.output
