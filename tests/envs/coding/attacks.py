"""Programs that mean harm. Each ends in a result, and nothing of it is left.

`test_attacks` runs this file in a place of its own. Nowhere else does anything here run: if what is
tested fails, a program could kill all that its user, or root, has on this machine.
"""

from __future__ import annotations

import ast
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from coding_env.models import CodeObservation
from coding_env.server import users
from coding_env.server.coding_environment import CodingEnvironment
from coding_env.server.inside.limits import Confinement, Limits, most_processes
from openenv_gym.errors import IsolationError
from tests.support.waiting import eventually

from .conftest import Make, hurried, run
from .containment import CONTAINED, FORK_BOMB


if CONTAINED not in os.environ:
    pytest.skip("runs from test_attacks alone", allow_module_level=True)

# What is done, and the exit codes that may come of it. With 124 among them it may never end.
ATTACKS = {
    "an infinite loop": ("while True: pass", {124}),
    "a huge number": ("10 ** (10 ** 8)", {124, 1}),
    "a fork bomb": (FORK_BOMB, {124, 125, 137}),
    "a fork bomb of whoever may be root": (
        "import os\n"
        "for user in (0, os.geteuid()):\n"
        "    try: os.setresuid(user, user, user)\n"
        "    except OSError: pass\n" + FORK_BOMB,
        {124, 125, 137},
    ),
    "threads": (
        "import threading, time\n"
        "for _ in range(5000): threading.Thread(target=time.sleep, args=(9,)).start()",
        {1, 124},
    ),
    "output without end": ("import os\nwhile True: os.write(1, bytes(1 << 16))", {124}),
    "deep recursion": (
        "import sys\nsys.setrecursionlimit(10**9)\ndef f(): f()\nf()",
        {1, 124, 139},
    ),
    "deep recursion in C": (
        "x = []\nfor _ in range(10**5): x = [x]\nprint(len(repr(x)))",
        {1, 124, 139},
    ),
    "memory": ("x = bytearray(1 << 40)", {1}),
    "memory, bit by bit": ("x = []\nwhile True: x.append(bytearray(1 << 20))", {1, 137, 124}),
    "a large file": ("with open('f', 'wb') as f:\n    while True: f.write(bytes(1 << 20))", {1}),
    "many open files": ("files = []\nwhile True: files.append(open('/dev/null'))", {1}),
    "stopping itself": ("import os, signal; os.kill(os.getpid(), signal.SIGSTOP)", {124}),
    "killing itself": ("import os; os.kill(os.getpid(), 9)", {137}),
    "a segmentation fault": ("import ctypes; ctypes.string_at(0)", {139}),
    "ending without a word": ("import os; os._exit(0)", {125}),
    "ending with another's code": ("import os; os._exit(7)", {7}),
    "ignoring signals": (
        "import signal\nfor n in (2, 15): signal.signal(n, signal.SIG_IGN)\nwhile True: pass",
        {124},
    ),
    "catching everything": (
        "import time\nwhile True:\n    try: time.sleep(9)\n    except BaseException: pass",
        {124},
    ),
    "closing everything": ("import os; os.closerange(0, 4096)", {0}),
    "breaking builtins": (
        "import builtins\nfor n in ('len', 'print', 'isinstance', 'compile', 'open'): setattr(builtins, n, None)",
        {0},
    ),
    "breaking modules": (
        "import sys, json, traceback, linecache, struct, os\n"
        "sys.stdout = sys.stderr = None\njson.dumps = traceback.format_exception = None\n"
        "linecache.cache = os._exit = struct.pack = None\n1 / 0",
        {1},
    ),
    "forgetting all modules": ("import sys; sys.modules.clear()", {0, 1}),
    "a tracing function": ("import sys\ndef t(*a): raise ValueError\nsys.settrace(t)", {0, 1, 125}),
    "an exit handler": ("import atexit\natexit.register(lambda: None)\nraise SystemExit(3)", {3}),
    "a child that goes on": ("import os\nif os.fork() == 0: x = 5", {0}),
    "ending the main thread": ("import ctypes; ctypes.CDLL(None).pthread_exit(None)", {124, 125}),
}


@pytest.fixture(scope="module")
def victim() -> Iterator[CodingEnvironment]:
    environment = CodingEnvironment(allow_unsandboxed=True, wall_s=60.0, memory_bytes=256 << 20)
    yield environment
    environment.close()


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_ends_in_a_result(victim: CodingEnvironment, name: str) -> None:
    code, expected = ATTACKS[name]
    victim.reset(seed=1)
    run(victim, "x = 1")
    with hurried(victim) if 124 in expected else contextlib.nullcontext():
        seen = run(victim, code)
    assert seen.exit_code in expected, seen
    if seen.metadata["variables_lost"]:
        assert "A fresh interpreter has taken its place: variables are lost." in seen.stderr
        assert "NameError" in run(victim, "x").stderr
    victim.reset(seed=1)
    again = run(victim, "print('alive'); 1 + 1")
    assert (again.exit_code, again.stdout, again.result) == (0, "alive\n", "2"), again
    assert others_of(victim) == 1


def others_of(environment: CodingEnvironment) -> int:
    """Count the processes below the keeper: the interpreter, and what nobody may have left."""
    interpreter = environment._interpreter
    assert interpreter is not None
    return len(below(interpreter._keeper.pid))


def below(pid: int) -> list[int]:
    """Return all processes that stem from one."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    facts = file.read().rpartition(b")")[2].split()
            except OSError:
                continue
            if facts[0] != b"Z" or int(facts[17]) > 1:  # a thread may have outlived the first
                children.setdefault(int(facts[1]), []).append(int(name))
    found, waiting = [], [pid]
    while waiting:
        new = children.get(waiting.pop(), [])
        found += new
        waiting += new
    return found


def test_closing_all_descriptors_loses_neither_variables_nor_the_session(make: Make) -> None:
    environment = make()
    environment.reset()
    run(environment, "import os\nx = 1\nos.closerange(3, 4096)")
    assert run(environment, "print(x)").stdout == "1\n"


_DAEMONS = """
import os, signal, time
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.execve("/bin/sleep", ["sleep", "600"], {})
        os._exit(0)
"""


@pytest.mark.parametrize("how", ["reset", "close", "the interpreter's death"])
def test_daemons_die_with_the_episode(make: Make, how: str) -> None:
    environment = make()
    environment.reset()
    run(environment, _DAEMONS)
    interpreter = environment._interpreter
    assert interpreter is not None
    keeper = interpreter._keeper.pid
    assert eventually(lambda: len(below(keeper)) == 4)  # their parents have ended
    started = set(below(keeper))
    if how == "reset":
        environment.reset()
    elif how == "close":
        environment.close()
        assert not os.path.exists(interpreter.directory)
    else:
        run(environment, "os._exit(3)")
    assert not started & {int(name) for name in os.listdir("/proc") if name.isdigit()}


@pytest.mark.parametrize("how", ["reset", "close"])
def test_a_process_that_looks_dead_dies_with_the_episode(make: Make, how: str) -> None:
    environment = make()
    environment.reset()
    run(
        environment,
        "import ctypes, os, threading, time\n"
        "if os.fork() == 0:\n"
        "    threading.Thread(target=time.sleep, args=(600,)).start()\n"
        "    ctypes.CDLL(None).pthread_exit(None)",
    )
    interpreter = environment._interpreter
    assert interpreter is not None
    started = set(below(interpreter._keeper.pid))
    assert len(started) == 2
    getattr(environment, how)()
    assert not started & {int(name) for name in os.listdir("/proc") if name.isdigit()}


def test_a_thread_that_outlives_its_step_dies_with_the_episode(make: Make) -> None:
    environment = make()
    environment.reset()
    run(
        environment,
        "import threading\n"
        "def work():\n"
        "    n = 0\n"
        "    while True:\n"
        "        n += 1\n"
        "        open('beat', 'w').write(str(n))\n"
        "threading.Thread(target=work).start()",
    )
    run(environment, "import os, time\nwhile not os.path.exists('beat'): time.sleep(0.01)")
    assert run(environment, "os.path.exists('beat')").result == "True"
    environment.reset()
    assert (
        run(
            environment,
            "import os, threading, time; time.sleep(0.2); os.listdir('.'), threading.active_count()",
        ).result
        == "([], 1)"
    )


def test_nothing_outlives_a_server_that_is_killed() -> None:
    code = (
        "from coding_env.server.coding_environment import CodingEnvironment\n"
        "from coding_env.models import CodeAction\n"
        "import time\n"
        "env = CodingEnvironment(allow_unsandboxed=True)\n"
        "env.reset()\n"
        'env.step(CodeAction(code=\'import subprocess; subprocess.Popen(["sleep", "600"])\'))\n'
        "print(env._interpreter._keeper.pid, env._interpreter.directory, flush=True)\n"
        "time.sleep(600)\n"
    )
    server = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert server.stdout is not None
    keeper, directory = server.stdout.readline().split()
    started = [int(keeper), *below(int(keeper))]
    assert len(started) == 3
    server.send_signal(signal.SIGKILL)
    server.wait()
    server.stdout.close()
    assert eventually(lambda: not any(map(alive, started)) and not os.path.exists(directory))


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] != b"Z"
    except OSError:
        return False


# -- the server, and others -----------------------------------------------------------------------

_ATTEMPT = """
import os
def attempt(function):
    try:
        return function()
    except OSError as error:
        return type(error).__name__
"""


@pytest.fixture
def confined(env: CodingEnvironment) -> CodingEnvironment:
    if "landlock" not in env.state.isolation:
        pytest.skip("the kernel has no Landlock with scopes (Linux 6.12)")
    run(env, _ATTEMPT)
    return env


def result(seen: CodeObservation) -> Any:
    assert seen.exit_code == 0, seen.stderr
    return ast.literal_eval(seen.result)


def test_the_server_can_be_neither_signalled_nor_read(confined: CodingEnvironment) -> None:
    pids = (os.getpid(), "os.getppid()")
    for pid in pids:
        code = (
            f"pid = {pid}\n"
            "[attempt(lambda: os.kill(pid, 9)), attempt(lambda: os.kill(pid, 19)),"
            " attempt(lambda: open(f'/proc/{pid}/environ', 'rb').read()),"
            " attempt(lambda: open(f'/proc/{pid}/mem', 'rb').read(1)),"
            " attempt(lambda: os.readlink(f'/proc/{pid}/fd/0'))]"
        )
        assert result(run(confined, code)) == ["PermissionError"] * 5
    assert run(confined, "attempt(lambda: os.kill(-1, 9)), 1").exit_code in (0, 137)
    assert run(confined, "2 + 2").exit_code == 0


def test_nothing_can_be_written_but_in_the_directory(confined: CodingEnvironment) -> None:
    code = (
        "[attempt(lambda: open(path, 'w')) for path in "
        f"('/tmp/left', '/dev/shm/left', '/var/tmp/left', {__file__!r}, '/etc/passwd', '../left')]"
    )
    assert result(run(confined, code)) == ["PermissionError"] * 6
    assert run(confined, "open('mine', 'w').write('1')").result == "1"


def test_only_what_a_program_needs_can_be_read(confined: CodingEnvironment) -> None:
    own = os.path.expanduser("~/.profile")
    code = f"[attempt(lambda: open(path).read()) for path in ({__file__!r}, {own!r}, '/tmp')]"
    assert set(result(run(confined, code))) <= {"PermissionError", "FileNotFoundError"}
    assert run(confined, "import json, decimal, ssl; 1").result == "1"


def test_descriptors_of_the_server_are_not_there(env: CodingEnvironment) -> None:
    code = "import os\n[os.readlink(f'/proc/self/fd/{n}').split(':')[0] for n in range(3)]"
    kinds = result(run(env, code))
    assert kinds[1:] == ["pipe", "pipe"]
    assert result(run(env, "sorted(map(int, os.listdir('/proc/self/fd')))[3:]")) in ([], [3])


def test_two_sessions_share_nothing(make: Make) -> None:
    first, second = make(), make()
    for environment in (first, second):
        environment.reset()
        run(environment, _ATTEMPT)
    run(
        first,
        "secret = 41\nimport builtins, math\nbuiltins.leak = math.leak = 1\nopen('file', 'w').write('x')",
    )
    pid, place = result(run(first, "os.getpid(), os.getcwd()"))
    assert "NameError" in run(second, "secret").stderr
    assert "NameError" in run(second, "leak").stderr
    assert result(run(second, "import math; hasattr(math, 'leak'), os.listdir('.')")) == (False, [])
    if "landlock" in second.state.isolation:
        code = (
            f"[attempt(lambda: os.listdir({place!r})), attempt(lambda: os.kill({pid}, 9)),"
            f" attempt(lambda: open('/proc/{pid}/mem', 'rb').read(1))]"
        )
        assert result(run(second, code)) == ["PermissionError"] * 3
    assert run(first, "secret").result == "41"


# -- bounds of processes --------------------------------------------------------------------------

_COUNT = """
import os, time
started = 0
while started < 250:
    try:
        if os.fork() == 0:
            time.sleep(20)
            os._exit(0)
    except OSError:
        break
    started += 1
started
"""


def test_as_many_processes_as_were_allowed(make: Make) -> None:
    first, second = make(processes=8), make(processes=8)
    for environment in (first, second):
        environment.reset()
    assert [run(each, _COUNT).result for each in (first, second)] == ["8", "8"]
    for _ in range(3):  # also while the other session's are there
        second.reset()
        assert run(second, _COUNT).result == "8"


def test_a_bomb_in_one_session_is_not_felt_in_another(make: Make) -> None:
    first, second = make(wall_s=2.0, processes=8), make(processes=8)
    for environment in (first, second):
        environment.reset()
    run(first, f"import os\nif os.fork() == 0:\n    exec({FORK_BOMB!r})\n    os._exit(0)")
    for _ in range(3):
        second.reset()
        assert run(second, _COUNT).result == "8"
    first.reset()
    assert others_of(first) == 1


def test_what_programs_start_raises_no_bound() -> None:
    """Where sessions share a user: here all of them are in this namespace of process ids."""
    shared = Confinement("/", (), (), None)
    before = most_processes(Limits(), shared)
    sleep = ["sleep", "20"]
    with subprocess.Popen(["prlimit", "--msgqueue=0", *sleep]) as program:
        assert eventually(lambda: b"sleep" in read(f"/proc/{program.pid}/comm"))
        assert most_processes(Limits(), shared) == before
        program.kill()
    with subprocess.Popen(sleep) as other:
        assert most_processes(Limits(), shared) == before + 1
        other.kill()
    assert most_processes(Limits(processes=7), Confinement("/", (), (), 20_000)) == 9


def read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def test_root_that_cannot_change_its_user_runs_nothing(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(users, "can_change_user", lambda: False)
    monkeypatch.setattr(os, "getresuid", lambda: (1000, 1000, 0))
    with pytest.raises(IsolationError, match="bounds no processes of root") as caught:
        make().reset()
    assert "another user" in str(caught.value)


def test_no_two_sessions_have_one_user(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = iter([20_001, 20_001, 20_002, 20_001])
    monkeypatch.setattr(users, "free_users", lambda count: next(numbers))
    first, second = make(), make()
    for environment in (first, second):
        environment.reset()
    code = "import os\nos.getresuid()"
    assert run(first, code).result == "(20001, 20001, 20001)"
    assert run(second, code).result == "(20002, 20002, 20002)"
    first.close()  # which gives its user back
    third = make()
    third.reset()
    assert run(third, code).result == "(20001, 20001, 20001)"
