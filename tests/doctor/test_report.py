"""What `doctor` tells of a machine, in text and as data."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from openenv_gym.cli.main import main
from openenv_gym.doctor import python, report
from openenv_gym.doctor.__main__ import main as module_main
from openenv_gym.doctor.checks import Check, State, guarded
from openenv_gym.doctor.engine import check_engine
from openenv_gym.doctor.machine import check_machine


def _named(checks: Any, name: str) -> Check:
    (found,) = [each for each in checks if each.name == name]
    return found


def test_what_works_is_found_with_its_version() -> None:
    found = list(python.check_python())
    assert _named(found, "Python").state is State.OK
    assert sys.executable in _named(found, "Python").found
    assert _named(found, "numpy").state is State.OK


def test_an_extra_that_is_not_installed_comes_with_its_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = python._version
    monkeypatch.setattr(python, "_version", lambda name: None if name == "docker" else real(name))
    check = _named(python.check_python(), "extra docker")
    assert check.state is State.ABSENT
    assert check.fix == 'pip install "openenv-gym[docker]"'


def test_a_package_that_is_needed_and_missing_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    real = python._version
    monkeypatch.setattr(python, "_version", lambda name: None if name == "msgpack" else real(name))
    check = _named(python.check_python(), "msgpack")
    assert check.state is State.FAILED
    assert check.fix.startswith('pip install "msgpack')


def test_no_daemon_is_a_failure_with_the_fix_beside_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none")
    (check,) = check_engine()
    assert check.state is State.FAILED
    assert str(tmp_path) in check.found
    assert "Start it, set DOCKER_HOST" in check.fix
    text = report.lines([check])
    assert text[1].split()[0] == "FAILED"
    assert "-> Start it" in text[2]
    assert not report.healthy([check])


def test_a_temporary_directory_that_is_too_deep_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    check = _named(check_machine(), "Unix sockets")
    assert check.state is State.FAILED
    assert "TMPDIR" in check.fix


def test_a_check_that_fails_itself_is_a_finding() -> None:
    def look() -> Iterator[Check]:
        yield Check("machine", "first", State.OK, "here")
        raise OSError("no such thing")

    first, second = guarded("machine", "kernel", look)
    assert first.state is State.OK
    assert second.state is State.UNKNOWN
    assert "no such thing" in second.found


def test_colours_of_what_was_found_do_not_reach_the_terminal() -> None:
    text = report.lines([Check("machine", "name", State.OK, "\x1b[31mred")])
    assert "\x1b" not in "\n".join(text)


def test_the_command_prints_text_or_json(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none")
    shown = CliRunner().invoke(main, ["doctor"])
    assert shown.exit_code == 1  # no daemon
    assert "FAILED daemon" in shown.output
    data = json.loads(CliRunner().invoke(main, ["doctor", "--json"]).output)
    assert data["healthy"] is False
    assert {"area", "name", "state", "found", "fix"} == set(data["checks"][0])


def test_without_click_the_module_does_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none")
    assert module_main(["--json"]) == 1
    assert json.loads(capsys.readouterr().out)["healthy"] is False
    assert module_main(["--attack", "image", "--only", "no such attack"]) == 1
    assert "Groups are bombs, files" in capsys.readouterr().err
