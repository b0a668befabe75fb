"""``openenv-gym --help``, ``list``, ``info`` and ``logs``."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from click.testing import CliRunner, Result

from openenv_gym import start_server
from openenv_gym.cli.logs import added
from openenv_gym.cli.main import _COMMANDS, main
from openenv_gym.cli.options import PROVIDER_NAMES
from openenv_gym.providers import PROVIDERS, local
from tests.support.waiting import eventually


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


def test_help_imports_little() -> None:
    code = (
        "import sys; from openenv_gym.cli.main import main\n"
        f"for name in {sorted(_COMMANDS)}: main([name, '--help'], standalone_mode=False)\n"
        "print({name.partition('.')[0] for name in sys.modules} "
        "& {'pydantic', 'websockets', 'docker', 'huggingface_hub', 'gradio', 'moviepy', 'pytest'})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "set()"


@pytest.mark.parametrize("name", sorted(_COMMANDS))
def test_each_command_has_help(name: str) -> None:
    done = _run(name, "--help")
    assert done.exit_code == 0 and "Usage:" in done.output
    assert done.output.count("  ") > 3


def test_help_knows_all_providers() -> None:
    assert list(PROVIDERS) == list(PROVIDER_NAMES)


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


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no full device here")
def test_a_disk_that_is_full() -> None:
    command = [sys.executable, "-m", "openenv_gym.cli", "list"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1 and done.stderr.startswith("Error: No space left on device.")
    assert "Traceback" not in done.stderr


def test_a_reader_that_has_gone() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "openenv_gym.cli", "list", "--all"]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    assert done.returncode == 1 and done.stderr == ""


def test_list_of_nothing() -> None:
    for more in ([], ["--json"]):
        done = _run("list", "moon", *more)
        assert done.exit_code == 1 and "'moon'" in done.stderr
        assert done.stdout == ("[]\n" if more else "")
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
    before = _own_servers()
    env = gymnasium.make("openenv/Echo-v0", provider="process")
    try:
        (name,) = _own_servers() - before
        found: list[dict[str, Any]] = json.loads(_run("logs", name[:12], "--json").stdout)
        assert "opened for channel" in found[0]["log"]
        done = _run("logs", name, "--tail", "1")
        assert done.exit_code == 0 and len(done.stdout.splitlines()) == 1
    finally:
        env.close()


def test_logs_that_go_on(tmp_path: Path) -> None:
    """What a server writes from now on is shown; when it ends, so does the command."""
    log = tmp_path / "followed"
    before = _own_servers()
    server = start_server("openenv/Echo-v0", provider="process")
    gymnasium.make("openenv/Echo-v0", server=server).close()
    (name,) = _own_servers() - before
    with (
        log.open("wb") as output,
        subprocess.Popen(
            [sys.executable, "-m", "openenv_gym.cli", "logs", name, "--follow", "--tail", "5"],
            stdout=output,
            stderr=output,
        ) as process,
    ):
        try:

            def opened(count: int) -> bool:
                return log.read_text().count("opened for") == count

            for count in (1, 2, 3):
                assert eventually(functools.partial(opened, count), 60)
                gymnasium.make("openenv/Echo-v0", server=server).close()
            server.close()
            assert process.wait(60) == 1
        finally:
            server.close()
            process.kill()
    text = log.read_text()
    assert "It has ended" in text and "Traceback" not in text
    lines = text.splitlines()
    assert len(set(lines)) == len(lines)  # nothing twice


def test_ctrl_c_ends_following() -> None:
    before = _own_servers()
    env = gymnasium.make("openenv/Echo-v0", provider="process")
    try:
        (name,) = _own_servers() - before
        command = [sys.executable, "-m", "openenv_gym.cli", "logs", name, "--follow"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout is not None and process.stderr is not None
            assert process.stdout.readline()
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 1 and b"Traceback" not in process.stderr.read()
        env.reset()  # the server is none the worse for it
    finally:
        env.close()


def _own_servers() -> set[str]:
    """Return the names of the servers that this process has started, for whatever test."""
    return {
        each.name
        for each in local.processes("process")
        if each.owner is not None and each.owner.pid == os.getpid()
    }


@pytest.mark.parametrize(
    ("before", "now", "new"),
    [
        ("", "a\n", "a\n"),
        ("a\n", "a\n", ""),
        ("a\n", "a\na\na\n", "a\na\n"),  # which says the same again
        ("a\nb\n", "b\nc\n", "c\n"),  # of which the beginning is too long ago
        ("a\nb", "a\nbc\n", "c\n"),  # a line that was half written
        ("a\nb\n", "x\ny\n", "x\ny\n"),
        ("a", "", ""),
    ],
)
def test_what_a_log_has_got_since(before: str, now: str, new: str) -> None:
    assert added(before, now) == new


def test_logs_of_nobody() -> None:
    done = _run("logs", "moon")
    assert done.exit_code == 1 and "openenv-gym ps" in done.stderr
    assert _run("logs", "--follow").exit_code == 2
    assert _run("logs", "--owner", "0").exit_code == 2
    assert _run("logs", "--tail", "0").exit_code == 2
