"""A process for each session, where nobody may change users. (Containers: tests/providers/docker.)"""

from __future__ import annotations

import functools
import json
import os
import signal
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from openenv_gym import errors
from openenv_gym.providers import ServerTarget
from openenv_gym.providers.process import ProcessProvider
from openenv_gym.providers.thread import ThreadProvider
from tests.server.test_metrics import figures_of
from tests.server.workers.conftest import Serve, children, is_alive, run
from tests.support.waiting import eventually


def test_each_session_has_a_process_a_group_and_a_directory(serve: Serve) -> None:
    command = serve("--isolate-sessions", "--capacity", "3")
    opened = [command.open() for _ in range(3)]
    assert len({pid for _, pid in opened}) == 3
    code = "import os\nresult = os.environ['TMPDIR'], os.stat(os.environ['TMPDIR']).st_mode & 0o777"
    places = [run(connection, code) for connection, _ in opened]
    assert len({place for place, _ in places}) == 3
    assert {mode for _, mode in places} == {0o700}
    for connection, pid in opened:
        assert run(connection, "import os\nresult = os.getsid(0), os.getpgid(0)") == (pid, pid)
    with pytest.raises(errors.CapacityError):
        command.connect()
    for connection, _ in opened:
        connection.close()
    assert eventually(lambda: not any(Path(place).exists() for place, _ in places))
    assert eventually(lambda: not any(is_alive(pid) for _, pid in opened))
    assert "NOT a user of their own" in command.log()
    assert command.stop() == 0


_LEAVE = """
import os, subprocess, sys
ran_away = subprocess.Popen(
    [sys.executable, "-c", "import signal\\nprint(1, flush=True)\\nsignal.pause()"],
    start_new_session=True, stdout=subprocess.PIPE,
)
ran_away.stdout.read(1)
stayed = subprocess.Popen(["sleep", "600"])
os.makedirs(os.environ["TMPDIR"] + "/a/b/c")
os.symlink("/", os.environ["TMPDIR"] + "/a/link")
os.chmod(os.environ["TMPDIR"] + "/a", 0)
result = ran_away.pid, stayed.pid, os.environ["TMPDIR"]
"""


# Signals from 35 to 63 have no name of their own.
@pytest.mark.parametrize("end", ["close", "exit", signal.SIGKILL, 40])
def test_nothing_of_a_session_is_left(serve: Serve, end: str | int) -> None:
    command = serve("--isolate-sessions", "--capacity", "2")
    other, _ = command.open()
    connection, pid = command.open()
    ran_away, stayed, place = run(connection, _LEAVE)
    if end == "close":
        connection.close()
    elif isinstance(end, int):
        os.kill(pid, end)
    else:
        with pytest.raises(errors.SessionLostError):
            run(connection, "os._exit(1)")
    assert eventually(lambda: not any(is_alive(each) for each in (pid, ran_away, stayed)))
    assert eventually(lambda: not Path(place).exists())
    assert run(other, "result = 1") == 1
    command.open(wait_s=30.0)


def test_a_process_that_does_not_end_with_its_session_is_ended(serve: Serve) -> None:
    command = serve("--isolate-sessions", "--capacity", "1", "--resume-grace-s", "3")
    connection, pid = command.open()
    run(connection, "import os\nos._exit = lambda code: __import__('time').sleep(600)")
    connection.close()
    assert eventually(lambda: not is_alive(pid))
    said = f"The process of the sessions {connection.session_name[0]}-..."
    assert eventually(lambda: said in command.log())
    other, pid = command.open(wait_s=30.0)
    for _ in range(5):  # one who comes back in time is not ended
        other._drop()
        assert run(other, "import os\nresult = os.getpid()") == pid


def test_a_session_is_resumed_in_its_process(serve: Serve) -> None:
    command = serve("--isolate-sessions")
    opened = [command.open() for _ in range(2)]
    for connection, pid in opened:
        run(connection, f"mine = {pid}")
        connection._drop()
        assert run(connection, "import os\nresult = mine, os.getpid()") == (pid, pid)


def test_a_session_that_cannot_be_opened_leaves_nothing(serve: Serve) -> None:
    command = serve("--isolate-sessions", "--capacity", "1")
    for _ in range(3):
        with pytest.raises(errors.InvalidOptionError, match="Unknown option 'nope'"):
            command.connect({"nope": 1}, wait_s=30.0)
    command.open(wait_s=30.0)
    assert eventually(lambda: len(children(command.process.pid)) == 2)  # with the next one


def test_no_session_outlives_the_supervisor(serve: Serve) -> None:
    command = serve("--isolate-sessions")
    command.open()
    assert eventually(lambda: len(children(command.process.pid)) == 2)  # with the next one
    processes = children(command.process.pid)
    command.process.kill()
    assert eventually(lambda: not any(is_alive(pid) for pid in processes))


@pytest.mark.parametrize("provider", [ProcessProvider(), ThreadProvider()])
def test_providers_that_separate_nothing_refuse(provider: ProcessProvider | ThreadProvider) -> None:
    target = ServerTarget("echo_env", untrusted=True, num_envs=2, isolate_sessions=True)
    with pytest.raises(errors.IsolationError, match="are to be kept apart"):
        provider.start(target)


def test_what_cannot_be_had_in_a_container_is_refused(serve: Serve, tmp_path: Path) -> None:
    arguments = ("--session-directory", str(tmp_path), "--session-user", "30000")
    command = serve("--isolate-sessions", "--capacity", "2", *arguments, wait=False)
    assert command.process.wait(60) == 1
    assert "IsolationError: Sessions of an environment that runs untrusted code" in command.log()


def test_figures_of_sessions_are_added_up(serve: Serve) -> None:
    command = serve("--isolate-sessions", "--capacity", "2")

    def steps() -> float:
        return figures_of(command.url)["openenv_step_seconds_count"]

    def claims() -> float:
        return figures_of(command.url)["openenv_claim_seconds_count"]

    for number, how in ((1, "close"), (2, "kill")):
        connection, pid = command.open()
        for _ in range(3):
            run(connection, "result = 1")
        # While it lives, which is noticed a moment later; and when its process is gone.
        assert eventually(functools.partial(_is, steps, 3 * number))
        assert eventually(functools.partial(_is, claims, number))
        if how == "close":
            connection.close()
        else:
            os.kill(pid, signal.SIGKILL)
        assert eventually(lambda: figures_of(command.url)["openenv_sessions_active"] == 0)
        assert eventually(functools.partial(_is, steps, 3 * number))


def _is(figure: Callable[[], float], value: float) -> bool:
    return figure() == value


_LIE = """
import json, types
import openenv_gym.server.http_messages as messages
told = {}
def dumps(data, **options):
    told.update(data)
    said = {text}
    return said if isinstance(said, str) else json.dumps(data)
messages.json = types.SimpleNamespace(dumps=dumps)
"""


@pytest.mark.parametrize(
    "text",
    [
        "'[' * 200_000",
        "'{'",
        "'9' * 5_000",
        "[each.update(idle_s=float('nan'), steps=-1, watchers=10**30) for each in told['sessions']]",
        "[each.update(peer='\\x1b[2J' * 1000, more='x' * 100_000) for each in told['sessions']]",
    ],
    ids=["deep", "broken", "a number", "numbers", "texts"],
)
def test_one_that_lies_about_itself_leaves_the_list_to_others(serve: Serve, text: str) -> None:
    command = serve("--isolate-sessions")
    opened = [command.open()[0] for _ in range(2)]
    run(opened[1], _LIE.replace("{text}", text))

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    with urllib.request.urlopen(f"{command.url}/sessions", timeout=30) as answer:
        content = answer.read()
    listed = {
        each["session"]: each for each in json.loads(content, parse_constant=refuse)["sessions"]
    }
    assert listed[opened[0].session_name]["environment"] == "World"
    lies = listed.get(opened[1].session_name)
    if "told" in text:
        assert lies is not None and lies.keys() == listed[opened[0].session_name].keys()
    else:
        assert lies is None
    assert b"\x1b" not in content and b"u001b" not in content and len(content) < 2000
