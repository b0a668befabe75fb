"""Programs that mean no harm: values, output, exit codes, variables, spaces."""

from __future__ import annotations

import pytest
from gymnasium.utils.env_checker import check_env

from coding_env.models import CHARACTERS, MAX_OUTPUT, MAX_RESULT, CodeAction
from coding_env.server import interpreter
from coding_env.server.coding_environment import CodingEnvironment
from coding_env.server.output import Kept
from openenv_gym.errors import ResetNeededError
from openenv_gym.server.adapter import TypedEnv

from .conftest import Make, hurried, run


def test_check_env(make: Make) -> None:
    env = TypedEnv(make())
    check_env(env, skip_render_check=True)
    env.close()


@pytest.mark.parametrize(
    ("code", "exit_code", "stdout", "result"),
    [
        ("", 0, "", ""),
        ("x = 1", 0, "", ""),
        ("6 * 7", 0, "", "42"),
        ("print('hi')", 0, "hi\n", ""),
        ("print('hi'); 'there'", 0, "hi\n", "'there'"),
        ("import os; _ = os.write(1, b'raw'); os.system('echo shell')", 0, "rawshell\n", "0"),
        ("import sys; sys.exit()", 0, "", ""),
        ("import sys; sys.exit(3)", 3, "", ""),
        ("import sys; sys.exit(259)", 3, "", ""),
        ("raise SystemExit('bye')", 1, "", ""),
        ("1 / 0", 1, "", ""),
        ("def f(:", 1, "", ""),
        ("input()", 1, "", ""),
        ("__name__, __builtins__ is not None", 0, "", "('__main__', True)"),
    ],
)
def test_what_a_program_leads_to(
    env: CodingEnvironment, code: str, exit_code: int, stdout: str, result: str
) -> None:
    seen = run(env, code)
    assert (seen.exit_code, seen.stdout, seen.result) == (exit_code, stdout, result)
    assert not seen.timed_out
    assert env.state.last_exit_code == exit_code


def test_a_traceback_shows_the_program_and_nothing_else(env: CodingEnvironment) -> None:
    run(env, "x = 1")
    seen = run(env, "def f():\n    return 1 / 0\n\nf()")
    assert 'File "<step 2>", line 2, in f' in seen.stderr
    assert "return 1 / 0" in seen.stderr
    assert "ZeroDivisionError" in seen.stderr
    assert seen.stderr.count("File ") == 2
    assert "EOFError" in run(env, "input()").stderr
    assert "bye" in run(env, "raise SystemExit('bye')").stderr


def test_variables_stay_until_reset(env: CodingEnvironment) -> None:
    run(env, "import math\nx = 3\ndef double(n): return 2 * n")
    assert run(env, "double(x) + math.floor(0.5)").result == "6"
    assert run(env, "1 / 0").exit_code == 1
    assert run(env, "import sys; sys.exit(4)").exit_code == 4
    assert run(env, "x").result == "3"
    env.reset()
    assert "NameError" in run(env, "x").stderr


def test_files_stay_until_reset(env: CodingEnvironment) -> None:
    run(env, "import os\nopen('a', 'w').write('1')\nos.makedirs('b/c')\nos.chmod('b', 0)")
    assert run(env, "import os; sorted(os.listdir('.'))").result == "['a', 'b']"
    env.reset()
    assert run(env, "import os; os.listdir('.')").result == "[]"


def test_long_output_keeps_head_and_tail(env: CodingEnvironment) -> None:
    seen = run(env, "print('begin' + 'x' * 10**6 + 'end')")
    assert seen.stdout.startswith("beginx")
    assert seen.stdout.endswith("xend\n")
    assert f"[... {seen.stdout_cut_bytes} bytes cut ...]" in seen.stdout
    assert MAX_OUTPUT - 300 < len(seen.stdout) <= MAX_OUTPUT
    note = f"\n[... {seen.stdout_cut_bytes} bytes cut ...]\n"
    assert len(seen.stdout) - len(note) + seen.stdout_cut_bytes == 10**6 + 9
    seen = run(env, "'y' * 10**6")
    assert len(seen.result) == MAX_RESULT
    assert "[... 1000002 characters ...]" in seen.result


@pytest.mark.parametrize(
    "data",
    [
        b"x" * MAX_OUTPUT,
        b"x" * (MAX_OUTPUT + 1),
        b"\x00" * 20_000,
        "ä→日本😀".encode() * 5_000,
        b"\xff\xfe" * 9_000,
    ],
    ids=["just fits", "one more", "zeros", "characters", "no text"],
)
def test_kept_output_fits_and_counts(data: bytes) -> None:
    kept = Kept(data[:8142], data[8142:][-8142:], len(data))
    assert len(kept.text) <= MAX_OUTPUT
    assert set(kept.text) <= set(CHARACTERS)
    assert 0 <= kept.cut_bytes <= len(data)
    assert (kept.cut_bytes > 0) == ("bytes cut" in kept.text)


def test_observations_lie_in_their_space(env: CodingEnvironment) -> None:
    typed = TypedEnv(env)
    for code in (
        "print('ä → \\u65e5\\u672c \\x1b[31m \\x00 😀')",
        "import os; os.write(1, bytes(range(256)) * 200); os.write(2, b'\\xff' * 10**5)",
        "'\\ud800' + '\\u65e5' * 10**5",
        "raise ValueError('\\u65e5' * 10**6)",
        "class Odd:\n    def __repr__(self): return '\\x00' * 10**4\nOdd()",
    ):
        observation, *_ = typed.step(code)
        assert observation in typed.observation_space
    assert (
        "ä → \\u65e5\\u672c \\x1b[31m \\x00 😀"
        in typed.step("print('ä → \\u65e5\\u672c \\x1b[31m \\x00 😀')")[0]["stdout"]
    )


def test_equal_seeds_equal_trajectories(make: Make) -> None:
    codes = (
        "import random; [random.random() for _ in range(3)]",
        "list({'a', 'b', 'c', 'd', 'e'})",
        "random.choice('abcdef'), hash('abc')",
    )
    first, second = make(), make()
    seen = []
    for environment in (first, second):
        environment.reset(seed=5)
        seen.append([run(environment, code) for code in codes])
        environment.reset()  # goes on with the generator
        seen[-1] += [run(environment, code) for code in codes]
    assert seen[0] == seen[1]
    assert seen[0][0].result != seen[0][3].result
    first.reset(seed=6)
    assert run(first, codes[0]).result != seen[0][0].result


def test_time_is_over_and_variables_stay(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, "_GRACE_S", 60.0)  # it is interrupted when it has its turn
    environment = make()
    environment.reset()
    run(environment, "x = 1")
    with hurried(environment, 3.0):
        seen = run(environment, "print('so far')\nwhile True: pass")
    assert (seen.exit_code, seen.timed_out, seen.stdout) == (124, True, "so far\n")
    assert "[Stopped after 3 s.]" in seen.stderr
    assert seen.metadata["variables_lost"] is False
    assert run(environment, "x").result == "1"


def test_what_a_thread_writes_later_is_seen_later(env: CodingEnvironment) -> None:
    run(
        env,
        "import threading, time\n"
        "go = threading.Event()\n"
        "def late(): go.wait(); print('late')\n"
        "thread = threading.Thread(target=late); thread.start()",
    )
    assert run(env, "go.set(); thread.join()").stdout == "late\n"


def test_render(env: CodingEnvironment) -> None:
    run(env, "print('hi'); 1 + 1")
    assert env.render() == ">>> print('hi'); 1 + 1\nhi\n\n2"
    silent = CodingEnvironment(allow_unsandboxed=True)
    assert silent.render() is None
    silent.close()


def test_step_before_reset_is_refused(make: Make) -> None:
    with pytest.raises(ResetNeededError):
        make().step(CodeAction(code="1"))


def test_state_cannot_be_saved(env: CodingEnvironment) -> None:
    with pytest.raises(NotImplementedError):
        env.save_state()


# -- smolagents -----------------------------------------------------------------------------------


def test_smolagents_executor(make: Make) -> None:
    pytest.importorskip("smolagents")
    environment = make(executor="smolagents", imports=["string"], wall_s=60.0)
    environment.reset()
    seen = run(environment, "import string\nx = 4\nprint('hi')\nx + len(string.digits)")
    assert (seen.exit_code, seen.stdout, seen.result) == (0, "hi\n", "14")
    assert run(environment, "x").result == "4"
    seen = run(environment, "import os")
    assert (seen.exit_code, seen.stderr.count("not allowed")) == (1, 1)
    assert "ZeroDivisionError" in run(environment, "1 / 0").stderr
    with hurried(environment):
        seen = run(environment, "y = sum(range(10**12))")
    assert (seen.exit_code, seen.timed_out) == (124, True)
    environment.reset()
    assert run(environment, "x").exit_code == 1
