"""``openenv-gym validate``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from openenv_gym.cli.main import main
from openenv_gym.server import Server, load_app


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


@pytest.mark.parametrize(
    ("arguments", "named", "code"),
    [
        (["."], "openenv.yaml", 2),
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
