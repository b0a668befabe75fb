"""In the hardened container: alone, and several sessions in one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest

import openenv_gym  # noqa: F401  (registers the ids)
from coding_env.server.tasks import EXAMPLES
from tests.support.images import image

from .containment import FORK_BOMB


pytestmark = [pytest.mark.container, pytest.mark.timeout(300)]

SEEDED = ["import random; random.random()", "list({'a', 'b', 'c'})", "x = 1", "print(x)", "1 / 0"]

_ATTEMPT = """
import os, signal, socket
def attempt(function):
    try:
        return function()
    except OSError as error:
        return type(error).__name__
"""


@pytest.fixture(scope="module")
def env() -> Iterator[gymnasium.Env[Any, Any]]:
    image("coding_env")
    made = gymnasium.make("openenv/Coding-v0", provider="docker", wall_s=60.0)
    yield made
    made.close()


@pytest.fixture(scope="module")
def hurried() -> Iterator[gymnasium.Env[Any, Any]]:
    """An environment for programs that may never end; others have the time that they need."""
    image("coding_env")
    made = gymnasium.make("openenv/Coding-v0", provider="docker", wall_s=4.0)
    yield made
    made.close()


def value(env: gymnasium.Env[Any, Any], code: str) -> Any:
    """Return what a program's last expression is."""
    observation = env.step(code)[0]
    assert observation["exit_code"] == 0, observation
    return ast.literal_eval(observation["result"])


def test_a_thousand_random_steps(env: gymnasium.Env[Any, Any]) -> None:
    env.reset(seed=7)
    env.action_space.seed(7)
    for step in range(1000):
        code = env.action_space.sample() if step % 20 == 0 else f"x = {step}\nprint(x); x * 2"
        observation, reward, terminated, truncated, _ = env.step(code)
        assert observation in env.observation_space
        assert isinstance(reward, float)
        assert not (terminated or truncated)


def test_equal_seeds_in_a_container_and_here(env: gymnasium.Env[Any, Any]) -> None:
    here = gymnasium.make(
        "openenv/Coding-v0", provider="thread", allow_unisolated=True, allow_unsandboxed=True
    )
    for seed in (3, None, 4):
        mine, theirs = here.reset(seed=seed), env.reset(seed=seed)
        if seed is not None:
            assert mine == theirs
        for code in SEEDED:
            mine, theirs = here.step(code), env.step(code)
            assert mine == theirs
    here.close()


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param("while True: pass", {124}, id="loop"),
        pytest.param("10 ** (10 ** 8)", {124, 1}, id="number"),
        pytest.param(FORK_BOMB, {124, 125, 137}, id="fork bomb"),
        pytest.param("import os\nwhile True: os.write(1, bytes(1 << 20))", {124}, id="output"),
        pytest.param(
            "x = []\nwhile True: x.append(bytearray(1 << 20))", {1, 124, 137}, id="memory"
        ),
        pytest.param(
            "import os\n"
            "children = [os.fork() for _ in range(3)]\n"
            "x = []\n"
            "while True: x.append(bytes(1 << 20) + os.urandom(9))",
            {1, 124, 125, 137},
            id="memory of many",
        ),
        pytest.param("import os; os.kill(os.getpid(), 19)", {124}, id="stop"),
        pytest.param("import os; os.kill(-1, 9); os.kill(os.getpid(), 9)", {137}, id="kill all"),
        pytest.param(
            "i = 0\nwhile True:\n    open(f'f{i}', 'wb').write(bytes(1 << 20)); i += 1",
            {1},
            id="disk",
        ),
    ],
)
def test_an_attack_ends_in_a_result(
    hurried: gymnasium.Env[Any, Any], code: str, expected: set[int]
) -> None:
    hurried.reset(seed=1)
    observation = hurried.step(code)[0]
    assert observation["exit_code"] in expected, observation
    hurried.reset(seed=1)
    code = "import os; len([p for p in os.listdir('/proc') if p.isdigit()]), os.listdir('.')"
    # The first process, the server, the keeper, the interpreter.
    assert value(hurried, code) == (4, [])


def test_server_and_keeper_can_be_neither_signalled_nor_read(env: gymnasium.Env[Any, Any]) -> None:
    env.reset()
    if "landlock" not in env.unwrapped.state["isolation"]:
        pytest.skip("the kernel has no Landlock with scopes (Linux 6.12)")
    env.step(_ATTEMPT)
    code = (
        "others = [int(p) for p in os.listdir('/proc') if p.isdigit() and int(p) != os.getpid()]\n"
        "{(p, n): attempt(f) for p in others for n, f in enumerate(("
        "lambda: os.kill(p, 9), lambda: os.kill(p, 19), lambda: os.kill(p, 0),"
        "lambda: open(f'/proc/{p}/environ', 'rb').read(), lambda: os.readlink(f'/proc/{p}/fd/0'),"
        "lambda: open(f'/proc/{p}/mem', 'rb').read(1)))}"
    )
    found = value(env, code)
    assert len(found) == 18
    assert set(found.values()) == {"PermissionError"}


def test_what_is_written_to_the_owner_s_socket_is_lost(env: gymnasium.Env[Any, Any]) -> None:
    """A program can connect, as everybody in the container can, and has no key."""
    env.reset()
    env.step(_ATTEMPT)
    code = (
        "s = socket.socket(socket.AF_UNIX)\n"
        "s.settimeout(0.5)\n"
        "attempt(lambda: s.connect('/run/openenv/s'))\n"
        "attempt(lambda: s.sendall(b'A' * 100_000))\n"
        "attempt(lambda: s.recv(100))"
    )
    assert value(env, code) in (b"", "ConnectionResetError", "BrokenPipeError", "TimeoutError")
    assert value(env, "os.path.exists('/run/openenv/s.key')") is False  # the key is gone
    assert value(env, "[os.readlink(f'/proc/self/fd/{n}')[:4] for n in (1, 2)]") == ["pipe"] * 2


def test_no_network_and_no_place_to_write(env: gymnasium.Env[Any, Any]) -> None:
    env.reset()
    landlock = "landlock" in env.unwrapped.state["isolation"]
    env.step(_ATTEMPT)
    code = "attempt(lambda: socket.create_connection(('1.1.1.1', 53), timeout=2))"
    assert value(env, code) == "OSError"
    paths = ["/opt/x", "/etc/x", "/usr/x", *(["/tmp/x", "/dev/shm/x"] if landlock else [])]
    found = value(env, f"[attempt(lambda: open(path, 'w')) for path in {paths}]")
    assert set(found) <= {"PermissionError", "OSError"}
    if landlock:
        places = [str(EXAMPLES).partition("coding_env")[2]]
        code = (
            "import coding_env\n"
            f"attempt(lambda: open(os.path.dirname(coding_env.__file__) + {places[0]!r}).read())"
        )
        assert value(env, code) == "PermissionError"


def test_hidden_tests_in_a_container(docker: Any) -> None:
    from .solutions import SOLUTIONS

    image("coding_env")
    env = gymnasium.make("openenv/Coding-v0", provider="docker", tasks="examples", split="test")
    for name in ("tally", "ledger"):
        observation, info = env.reset(options={"task": name})
        assert (info["task"], observation["tests_passed"]) == (name, 0)
        observation, reward, terminated, *_ = env.step(SOLUTIONS[name])
        assert (reward, terminated) == (1.0, True), observation
    env.close()


def test_smolagents_in_a_container(docker: Any) -> None:
    image("coding_env")
    env = gymnasium.make("openenv/Coding-v0", provider="docker", executor="smolagents")
    env.reset()
    assert env.step("print('hi')\n6 * 7")[0]["result"] == "42"
    assert "not allowed" in env.step("import os")[0]["stderr"]
    env.close()


# -- several in one -------------------------------------------------------------------------------


def test_sessions_in_one_container_share_nothing(docker: Any) -> None:
    image("coding_env")
    envs = gymnasium.make_vec(
        "openenv/Coding-v0", num_envs=3, num_servers=1, provider="docker", wall_s=4.0
    )
    envs.reset(seed=1)
    observations = envs.step(
        [f"{_ATTEMPT}\nmine = {i}\nos.getuid(), os.getpid(), os.getcwd()" for i in range(3)]
    )[0]
    facts = [ast.literal_eval(each) for each in observations["result"]]
    assert len({uid for uid, _, _ in facts}) == 3
    uid, pid, place = facts[0]
    envs.step(["open('secret', 'w').write('1')", "del mine", "1"])
    touch = (
        f"[attempt(lambda: os.kill({pid}, 9)), attempt(lambda: os.listdir({place!r})),"
        f" attempt(lambda: open('/proc/{pid}/mem', 'rb').read(1)),"
        f" attempt(lambda: os.setuid({uid})), 'mine' in globals()]"
    )
    observations = envs.step(["mine", touch, touch])[0]
    assert observations["result"][0] == "0"
    assert ast.literal_eval(observations["result"][1]) == ["PermissionError"] * 4 + [False]
    assert ast.literal_eval(observations["result"][2]) == ["PermissionError"] * 4 + [True]
    observations = envs.step(["mine", FORK_BOMB, "os.kill(-1, 9); os.kill(os.getpid(), 9)"])[0]
    assert observations["result"][0] == "0"
    assert observations["exit_code"][1] in (124, 125, 137)
    assert observations["exit_code"][2] == 137
    assert envs.step(["mine"] * 3)[0]["result"][0] == "0"
    assert np.all(envs.step(["1 + 1"] * 3)[0]["exit_code"] == 0)
    envs.close()
