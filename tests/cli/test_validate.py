"""``openenv-gym validate``."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from openenv_gym.cli.init import write_package
from openenv_gym.cli.main import main
from openenv_gym.providers import local
from openenv_gym.server import Server, load_app
from tests.support.waiting import eventually


ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _own_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["validate", *arguments])


def test_a_folder() -> None:
    done = _run(str(ROOT / "envs" / "echo_env"), "--provider", "thread")
    assert done.exit_code == 0, done.output
    assert "33 of 33 rules are kept" in done.stdout


def test_options_and_json() -> None:
    done = _run(
        *("gymnasium", "--option", "env_id=CartPole-v1", "--provider", "thread"),
        *("--level", "runtime", "--json"),
    )
    found = json.loads(done.stdout)
    assert done.exit_code == 0 and found["healthy"]
    assert {check["state"] for check in found["checks"]} == {"ok", "absent"}


def test_a_server_that_runs(tmp_path: Path) -> None:
    server = Server(load_app("echo_env"))
    server.listen_unix(str(tmp_path / "s"))
    server.start()
    try:
        done = _run("--url", f"unix://{tmp_path}/s", "--json")
        assert done.exit_code == 0, done.output
        assert not any(check["area"] == "package" for check in json.loads(done.stdout)["checks"])
    finally:
        server.stop()


def test_what_is_broken_is_named_with_what_to_do(tmp_path: Path) -> None:
    folder = tmp_path / "moon_env"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "openenv.yaml").write_text("name: moon_env\nport: moon\n")
    done = _run(str(folder), "--level", "static")
    assert done.exit_code == 1
    assert "FAILED manifest" in done.stdout and "-> Change `port` in the file." in done.stdout


def test_a_folder_whose_name_has_a_space(tmp_path: Path) -> None:
    (tmp_path / "ünï cödé").mkdir()
    (tmp_path / "file").write_text("")
    for name, told in (("ünï cödé", "no openenv.yaml"), ("file", "is a file")):
        done = _run(str(tmp_path / name))
        assert done.exit_code == 2 and told in done.stderr
    folder = write_package("burrow", tmp_path / "ünï cödé", "text")
    done = _run(str(folder), "--provider", "thread")
    assert done.exit_code == 0 and "33 of 33" in done.stdout


@pytest.fixture
def strangers(tmp_path: Path) -> Path:
    """Return a package that runs strangers' code, and notes where it was imported."""
    folder = write_package("burrow", tmp_path, "basic")
    manifest = folder / "openenv.yaml"
    manifest.write_text(manifest.read_text().replace("untrusted: false", "untrusted: true"))
    with (folder / "server" / "app.py").open("a") as app:
        app.write(f"\nopen({str(tmp_path / 'ran')!r}, 'w')\n")
    return folder


def test_what_runs_strangers_code_is_looked_at_in_a_container(
    strangers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nowhere")
    done = _run(str(strangers), "--level", "runtime")
    assert done.exit_code == 1 and "No Docker daemon answers" in done.stdout
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("provider", ["process", "thread"])
def test_what_runs_strangers_code_is_run_nowhere_else(
    provider: str, strangers: Path, tmp_path: Path
) -> None:
    done = _run(str(strangers), "--level", "runtime", "--provider", provider)
    assert done.exit_code == 1 and "contains nothing of what that code does" in done.stdout
    assert "--provider docker" in done.stdout and "FAILED" in done.stdout
    assert not (tmp_path / "ran").exists()


@pytest.mark.timeout(300)
def test_ctrl_c_leaves_nothing(tmp_path: Path) -> None:
    """Neither a server nor a traceback: the rule that is looked at may be any."""
    command = [sys.executable, "-m", "openenv_gym.cli", "validate", "echo_env", "--json"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stderr is not None

        def started() -> list[str]:
            return [
                each.name
                for each in local.processes("process")
                if each.owner is not None and each.owner.pid == process.pid
            ]

        assert eventually(lambda: started() != [], 90)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        assert process.wait(60) == 1
        assert b"Traceback" not in process.stderr.read()
        assert eventually(lambda: started() == [])


@pytest.mark.parametrize(
    ("arguments", "named", "code"),
    [
        (["."], "openenv.yaml", 2),
        (["nowhere/"], "is not there", 2),
        (["ünï cödé"], "No environment package", 1),
        (["echo_env", "--url", "http://x"], "--url", 2),
        (["--url", "http://x", "--level", "static"], "--url", 2),
        (["echo_env", "--level", "high"], "--level", 2),
        (["moon_env"], "No environment package 'moon_env'", 1),
        (["--url", "http://127.0.0.1:1", "--level", "runtime"], "127.0.0.1:1", 1),
    ],
)
def test_bad_input(
    arguments: list[str], named: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = _run(*arguments)
    assert done.exit_code == code and named in done.output and "Traceback" not in done.output
    assert list(tmp_path.iterdir()) == []
