"""``openenv-gym serve``: a development server, and what its clients see of edits."""

from __future__ import annotations

import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import gymnasium
import pytest
from click.testing import CliRunner

from openenv_gym import errors
from openenv_gym.cli import reloading as reloading_module
from openenv_gym.cli.main import main
from openenv_gym.cli.reloading import serve_and_reload, syntax_problem
from openenv_gym.cli.serve import _reserve_port
from openenv_gym.server import Server, load_app


APP = """
from openenv_gym import Action, Environment, Observation
from pydantic import Field


class Go(Action):
    number: int = Field(ge=0, le=9)


class Seen(Observation):
    number: int = Field(ge=0, le=9)


class World(Environment):
    action_model = Go
    observation_model = Seen

    def reset(self, *, seed=None, options=None):
        self.begin_episode(seed)
        return Seen(number=FIRST)

    def step(self, action):
        return Seen(number=action.number)
"""
MANIFEST = "name: reload_env\napp: server.app:World\n"
SAYS_S = 40


class Command:
    """A command that runs, and what it has said."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "openenv_gym.cli", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line)

    def says(self, text: str) -> str:
        """Wait for a line with this text, and return what was said until then."""
        end_s = time.monotonic() + SAYS_S
        said = ""
        while text not in said:
            try:
                said += self.lines.get(timeout=max(end_s - time.monotonic(), 0.01))
            except queue.Empty:
                raise AssertionError(f"no {text!r} in {said!r}") from None
        return said

    def end(self) -> int:
        self.process.send_signal(signal.SIGINT)
        try:
            code = self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        self._reader.join()  # which reads to the end
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


def save(path: Path, text: str) -> None:
    """Write a file in one step: nobody sees a part of it."""
    new = path.with_name(f".{path.name}")  # which is not watched
    new.write_text(text)
    new.replace(path)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    folder = tmp_path / "reload_env"
    (folder / "server").mkdir(parents=True)
    for place in (folder, folder / "server"):
        (place / "__init__.py").touch()
    (folder / "openenv.yaml").write_text(MANIFEST)
    (folder / "server" / "app.py").write_text(APP.replace("FIRST", "1"))
    return folder


def _make(path: str) -> gymnasium.Env[int, int]:
    return gymnasium.make("openenv/Remote-v0", base_url=f"unix://{path}", wait_s=5.0)


@pytest.fixture
def reloading(package: Path, tmp_path: Path) -> Iterator[tuple[Command, Path, str]]:
    uds = str(tmp_path / "s")
    command = Command("serve", str(package), "--uds", uds, "--reload")
    try:
        command.says("Serving reload_env on")
        yield command, package / "server" / "app.py", uds
    finally:
        assert command.end() == 0
    assert not os.path.exists(uds)


def test_an_edit_is_served_and_clients_are_told(reloading: tuple[Command, Path, str]) -> None:
    command, app, uds = reloading
    env = _make(uds)
    assert env.reset()[0] == 1
    save(app, "class World(:\n")
    assert "app.py:1" in command.says("waiting for the next edit")
    assert env.step(4)[0] == 4  # the server goes on as it was
    save(app, "import math\nmath.moon\n")  # which only shows when it runs
    assert "AttributeError" in command.says("waiting for the next edit")
    with pytest.raises(errors.ServerReloadedError, match="after an edit"):
        env.step(4)
    save(app, APP.replace("FIRST", "2"))
    command.says("Serving reload_env on")
    env.close()
    env = _make(uds)
    assert env.reset()[0] == 2
    save(app, APP.replace("FIRST", "3"))  # of the same size, maybe in the same second
    command.says("Serving reload_env on")
    with pytest.raises(errors.ServerReloadedError, match="Make a new environment"):
        env.step(4)
    env.close()
    env = _make(uds)
    assert env.reset()[0] == 3
    env.close()


def test_a_broken_file_is_not_run_after_another_one_was_saved(
    reloading: tuple[Command, Path, str],
) -> None:
    command, app, uds = reloading
    env = _make(uds)
    assert env.reset()[0] == 1
    save(app, "class World(:\n")
    command.says("waiting for the next edit")
    (app.parent / "helper.py").write_text("x = 1\n")
    assert "app.py:1" in command.says("waiting for the next edit")
    assert env.step(4)[0] == 4  # the server goes on as it was
    save(app, APP.replace("FIRST", "2"))
    command.says("Serving reload_env on")
    with pytest.raises(errors.ServerReloadedError):
        env.step(4)
    env.close()


@pytest.fixture
def signals() -> Iterator[None]:
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    yield
    for each, handler in before.items():
        signal.signal(each, handler)


SLEEP = "import time; print('begun', flush=True); time.sleep(300)"
SLEEP_ON = f"import signal; signal.signal(signal.SIGTERM, lambda *_: print()); {SLEEP}"


@pytest.mark.parametrize("code", [SLEEP, SLEEP_ON], ids=["willing", "unwilling"])
def test_a_signal_while_the_server_starts_anew_ends_that_one(
    code: str, signals: None, package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers: list[subprocess.Popen[bytes]] = []

    def start(argv: list[str]) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", code if servers else SLEEP]
        server = subprocess.Popen(command, stdout=subprocess.PIPE)
        servers.append(server)
        assert server.stdout is not None
        assert server.stdout.readline() == b"begun\n"
        if len(servers) == 1:
            save(package / "server" / "app.py", "x = 1\n")
        else:
            os.kill(os.getpid(), signal.SIGTERM)
        return server

    monkeypatch.setattr(reloading_module, "_start", start)
    monkeypatch.setattr(reloading_module, "_END_S", 0.5)
    try:
        assert serve_and_reload(["reload_env", "--drain-s", "0.5"], package) == 0
        assert [server.poll() is None for server in servers] == [False, False]
    finally:
        for server in servers:
            server.kill()
            server.communicate()


def test_clients_of_a_vector_by_tcp_are_told(package: Path) -> None:
    command = Command("serve", str(package), "--port", "0", "--reload")
    try:
        said = command.says("Serving reload_env on")
        url = said[said.rindex("http://") :].split()[0]
        envs = gymnasium.make_vec("openenv/Remote-v0", num_envs=3, base_url=url)
        assert envs.reset(seed=1)[0].tolist() == [1, 1, 1]
        app = package / "server" / "app.py"
        save(app, APP.replace("FIRST", "2"))
        command.says("Serving reload_env on")
        with pytest.raises(errors.ServerReloadedError, match="after an edit"):
            envs.step(envs.action_space.sample())
        envs.close()
        envs = gymnasium.make_vec("openenv/Remote-v0", num_envs=3, base_url=url)  # the same port
        assert envs.reset(seed=1)[0].tolist() == [2, 2, 2]
        envs.close()
        port = int(url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=60):
            save(app, APP.replace("FIRST", "3"))  # who has not said anything holds nobody up
            command.says("Serving reload_env on")
    finally:
        assert command.end() == 0


@pytest.mark.skipif(sys.platform != "linux", reason="others keep no port")
def test_between_two_servers_nobody_else_gets_their_port() -> None:
    kept, port = _reserve_port("127.0.0.1")
    with kept:
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
        for _ in range(2):
            server = Server(load_app("echo_env"))
            assert server.listen_tcp("127.0.0.1", port) == ("127.0.0.1", port)
            server.start()
            server.stop()


def test_without_reload_it_is_a_server(package: Path, tmp_path: Path) -> None:
    uds = str(tmp_path / "s")
    command = Command("serve", str(package), "--uds", uds, "--", "--capacity", "1")
    try:
        command.says("Serving reload_env on")
        env = _make(uds)
        assert env.reset()[0] == 1
        env.close()
    finally:
        assert command.end() == 0


def test_syntax(tmp_path: Path) -> None:
    good, bad, text = tmp_path / "a.py", tmp_path / "b.py", tmp_path / "c.txt"
    good.write_text("x = 1\n")
    bad.write_text("x = 1\ny = (\n")
    text.write_text("(")
    assert syntax_problem([good, text, tmp_path / "gone.py"]) is None
    problem = syntax_problem([good, bad])
    assert problem is not None and problem.startswith(f"{bad}:2: ")


@pytest.mark.parametrize(
    ("arguments", "named", "code"),
    [
        (["."], "openenv.yaml", 2),
        (["moon_env"], "moon_env", 1),
        (["gymnasium", "--reload"], "no code to watch", 2),
        (["echo_env", "--reload", "--workers", "2"], "--workers", 2),
        (["nowhere/"], "is not there", 2),
        (["./nowhere_env"], "is not there", 2),
        (["echo_env", "--uds", "s", "--port", "1"], "--uds", 2),
        (["echo_env", "--port", "70000"], "--port", 2),
        (["echo_env", "--token-file", "nowhere"], "nowhere", 2),
    ],
)
def test_bad_input(
    arguments: list[str], named: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    done = CliRunner().invoke(main, ["serve", *arguments])
    assert done.exit_code == code and named in done.output and "Traceback" not in done.output
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_no_name(tmp_path: Path) -> None:
    folder = tmp_path / "my-env"
    folder.mkdir()
    (folder / "openenv.yaml").write_text(MANIFEST)
    (folder / "__init__.py").touch()
    done = CliRunner().invoke(main, ["serve", str(folder)])
    assert done.exit_code == 2 and "my_env" in done.stderr
