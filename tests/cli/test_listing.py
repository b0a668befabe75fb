"""``openenv-gym --help``, ``list``, ``info`` and ``logs``."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import gymnasium
import pytest
from click.testing import CliRunner, Result

from openenv_gym.cli.main import _COMMANDS, main
from openenv_gym.providers import local


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def test_help_imports_no_command() -> None:
    code = (
        "import sys; from openenv_gym.cli.main import main; main(['--help'], standalone_mode=False)"
        "; print([name for name in sys.modules if name.startswith('openenv_gym.cli.')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "rollout" not in done.stdout.splitlines()[-1]
    assert done.stdout.splitlines()[-1] == "['openenv_gym.cli.main']"


@pytest.mark.parametrize("name", sorted(_COMMANDS))
def test_each_command_has_help(name: str) -> None:
    done = _run(name, "--help")
    assert done.exit_code == 0 and "Usage:" in done.output
    assert done.output.count("  ") > 3


def test_a_misspelt_command() -> None:
    done = _run("lisst")
    assert done.exit_code == 2 and "Did you mean 'list'?" in done.stderr


def test_list() -> None:
    done = _run("list")
    assert "openenv/Echo-v0" in done.stdout and "openenv/CartPole-v1" not in done.stdout
    assert "--all" in done.stderr
    assert "openenv/CartPole-v1" in _run("list", "--all").stdout
    assert {line.split()[1] for line in _run("list", "pong").stdout.splitlines()[1:]} == {
        "atari_env"
    }
    assert "openenv/Echo-v0" in _run("list", "--package", "echo_env").stdout
    facts = json.loads(_run("list", "CartPole-v1", "--json").stdout)
    assert {each["id"] for each in facts} == {"openenv/CartPole-v1", "openenv/phys2d-CartPole-v1"}


def test_list_of_nothing() -> None:
    done = _run("list", "moon")
    assert done.exit_code == 1 and "'moon'" in done.stderr
    done = _run("list", "--package", "moon_env")
    assert done.exit_code == 2 and "echo_env" in done.stderr


def test_info() -> None:
    facts = json.loads(_run("info", "echo_env", "--json").stdout)
    assert facts["ids"] == ["openenv/Echo-v0"] and facts["distribution"] == "openenv-gym-echo"
    assert "gymnasium.make" in _run("info", "Pong-v5").stdout
    done = _run("info", "Pongg-v5")
    assert done.exit_code == 1 and "Did you mean 'openenv/Pong-v5'?" in done.stderr


def test_info_asks_a_server_for_spaces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENENV_PROVIDER", "thread")
    facts = json.loads(_run("info", "CartPole-v1", "--spaces", "--json").stdout)
    assert facts["action_space"] == "Discrete(2)"


def test_logs() -> None:
    import os

    env = gymnasium.make("openenv/Echo-v0", provider="process")
    try:
        (item,) = [
            each
            for each in local.processes("process")
            if each.owner is not None and each.owner.pid == os.getpid()
        ]
        found: list[dict[str, Any]] = json.loads(_run("logs", item.name[:12], "--json").stdout)
        assert "opened for channel" in found[0]["log"]
        done = _run("logs", item.name, "--tail", "1")
        assert done.exit_code == 0 and len(done.stdout.splitlines()) == 1
    finally:
        env.close()


def test_logs_of_nobody() -> None:
    done = _run("logs", "moon")
    assert done.exit_code == 1 and "openenv-gym ps" in done.stderr
    assert _run("logs", "--follow").exit_code == 2
    assert _run("logs", "--tail", "0").exit_code == 2
