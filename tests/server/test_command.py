"""The command line of a server: what it takes, what it says, what it leaves alone."""

from __future__ import annotations

import logging
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import pytest

import openenv_gym  # noqa: F401  # registers the ids
from openenv_gym import errors
from openenv_gym.server import MCPEnvironment, create_app, load_app
from openenv_gym.server import __main__ as command
from openenv_gym.server.process import raise_descriptor_limit
from tests.support.worlds import CountingEnv


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--port", "99999"], "--port: expected an integer from 0 to 65535, not '99999'"),
        (["--port", "-1"], "--port: expected an integer from 0"),
        (["--port", "http"], "--port: expected an integer from 0"),
        (["--capacity", "0"], "--capacity: expected an integer of at least 1, not '0'"),
        (["--capacity", "-5"], "--capacity: expected"),
        (["--max-threads", "0"], "--max-threads: expected"),
        (["--max-envs", "0"], "--max-envs: expected an integer of at least 1, not '0'"),
        (["--max-waiting", "-1"], "--max-waiting: expected"),
        (["--max-frame-bytes", "10"], "--max-frame-bytes: expected an integer of at least"),
        (["--resume-grace-s", "nan"], "--resume-grace-s: expected a number of seconds"),
        (["--resume-grace-s", "-1"], "--resume-grace-s: expected a number of seconds"),
        (["--idle-timeout-s", "soon"], "--idle-timeout-s: expected a number of seconds"),
        (["--uds", "/tmp/" + "x" * 200], "--uds: expected a path of 1 to 10"),
        (["--uds", ""], "--uds: expected a path of 1 to 10"),
    ],
)
def test_wrong_arguments_are_told(
    arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        command.main(["gymnasium", *(f"{arguments[0]}={arguments[1]}",)])
    assert caught.value.code == 2
    assert expected in capsys.readouterr().err


def test_a_description_is_the_environments_own() -> None:
    class Plain(MCPEnvironment):
        pass

    class Worded(Plain):
        """Is worded.

        At length.
        """

    assert create_app(Plain).metadata()["description"] == "Plain environment"
    assert create_app(Worded).metadata()["description"] == "Is worded."


@pytest.mark.parametrize("target", ["os:path", "os:sep", "os:nope", ":x", ".a:b"])
def test_what_makes_no_environments_is_unknown(target: str) -> None:
    with pytest.raises(errors.UnknownEnvironmentError):
        load_app(target)


def test_schemas_are_empty_where_options_are_needed() -> None:
    def factory(level: int) -> Any:
        return CountingEnv()

    assert create_app(factory).schemas() == {"action": {}, "observation": {}, "state": {}}


class Served(Exception):
    pass


def test_debug_does_not_log_the_heads_of_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    def serve(options: Any) -> int:
        raise Served

    monkeypatch.setattr(command, "_serve", serve)
    monkeypatch.setattr(logging, "basicConfig", lambda **kwargs: None)
    logger = logging.getLogger("websockets")
    monkeypatch.setattr(logging.getLogger(), "level", logging.DEBUG)
    monkeypatch.setattr(logger, "level", logging.NOTSET)
    logger.manager._clear_cache()  # type: ignore[attr-defined]
    with pytest.raises(Served):
        command.main(["gymnasium", "--debug"])
    assert not logging.getLogger("websockets.server").isEnabledFor(logging.DEBUG)


def test_the_limit_of_open_files_is_raised(caplog: pytest.LogCaptureFixture) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        pytest.skip("no limit of open files here")
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, hard - 1), hard))
        raise_descriptor_limit(hard)
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert "too few" in caplog.text


def test_the_limit_of_sub_environments(tmp_path: Path) -> None:
    path = tmp_path / "s"
    server = subprocess.Popen(
        [sys.executable, "-m", "openenv_gym.server", "gymnasium", "--uds", path, "--max-envs", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert server.stdout is not None and "Serving" in server.stdout.readline()

        def make(num_servers: int) -> Any:
            return gymnasium.make_vec(
                "openenv/CartPole-v1",
                num_envs=4,
                num_servers=num_servers,
                base_url=f"unix://{path}",
            )

        with pytest.raises(errors.InvalidOptionError, match="num_envs=4.*at most 2.*num_servers="):
            make(1)
        env = make(2)
        assert env.reset(seed=1)[0].shape == (4, 4)
        env.close()
    finally:
        server.terminate()
        server.communicate(timeout=20)


def test_an_address_of_version_6_is_shown_in_brackets(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Server(command.Server):
        def listen_tcp(self, host: str, port: int) -> tuple[str, int]:
            return host, 8123

        def start(self) -> None:
            self.stop()
            raise errors.TransportError("enough")

    monkeypatch.setattr(command, "Server", Server)
    monkeypatch.setattr(command.signal, "signal", lambda *_: None)
    monkeypatch.setattr(command.gc, "freeze", lambda: None)
    monkeypatch.setattr(command.os, "register_at_fork", lambda **_: None)
    monkeypatch.setattr(command, "raise_descriptor_limit", lambda _: None)
    monkeypatch.setattr(logging, "basicConfig", lambda **kwargs: None)
    assert command.main(["gymnasium", "--host", "::1", "--port", "0"]) == 1
    assert "http://[::1]:8123" in capsys.readouterr().out
