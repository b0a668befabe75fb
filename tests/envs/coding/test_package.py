"""The package: options, manifest, application, client, and where it refuses to run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import pytest

import coding_env
import openenv_gym  # noqa: F401  (registers the ids)
from coding_env import CodeAction, CodeState, CodingEnv
from coding_env.models import CHARACTERS, MAX_CODE
from coding_env.server.app import app
from coding_env.server.coding_environment import CodingEnvironment
from coding_env.server.sandbox import SANDBOX_VARIABLE
from openenv_gym.errors import (
    EnvironmentFailedError,
    InvalidActionError,
    InvalidOptionError,
    IsolationError,
)
from openenv_gym.models.manifest import load_manifest
from openenv_gym.server import Server
from openenv_gym.server.adapter import TypedEnv
from openenv_gym.spaces.mapping import ModelMapping

from .conftest import Make


PACKAGE = Path(coding_env.__file__).parent


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("executor", "bash"),
        ("executor", 1),
        ("imports", "os"),
        ("imports", ["os"]),  # with executor="python"
        ("imports", [1]),
        ("split", "dev"),
        ("attempts", 0),
        ("attempts", True),
        ("attempts", "3"),
        ("wall_s", 0),
        ("wall_s", float("nan")),
        ("wall_s", "10"),
        ("cpu_s", 0),
        ("cpu_s", 1.5),
        ("memory_bytes", 1),
        ("file_bytes", -1),
        ("open_files", 3),
        ("processes", 1),
        ("rubric", 5),
        ("fields", "some"),
        ("allow_unsandboxed", "yes"),
        ("allow_unsandboxed", 1),
        ("render_mode", "rgb_array"),
    ],
)
def test_wrong_options(make: Make, field: str, value: Any) -> None:
    with pytest.raises(InvalidOptionError, match=field) as caught:
        make(**{"tasks": "examples", field: value})
    assert caught.value.field == field


@pytest.mark.parametrize("action", ["x" * (MAX_CODE + 1), 5, None, "日"])
def test_wrong_actions(make: Make, action: Any) -> None:
    env = TypedEnv(make())
    env.reset()
    with pytest.raises(InvalidActionError):
        env.step(action)


def test_it_refuses_to_run_outside_of_a_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SANDBOX_VARIABLE, raising=False)
    with pytest.raises(IsolationError, match="outside of a sandbox"):
        CodingEnvironment()
    monkeypatch.setenv(SANDBOX_VARIABLE, "1")
    CodingEnvironment().close()


@pytest.mark.parametrize("provider", ["process", "thread"])
def test_make_refuses_what_contains_nothing(provider: str) -> None:
    with pytest.raises(IsolationError):
        gymnasium.make("openenv/Coding-v0", provider=provider, allow_unsandboxed=True)
    with pytest.raises((IsolationError, EnvironmentFailedError)):
        gymnasium.make("openenv/Coding-v0", provider=provider, allow_unisolated=True)


def test_make_in_a_process(make: Make) -> None:
    env = gymnasium.make(
        "openenv/Coding-v0", provider="process", allow_unisolated=True, allow_unsandboxed=True
    )
    env.reset(seed=1)
    observation, reward, *_ = env.step("print(6 * 7)")
    assert (observation["stdout"], reward) == ("42\n", 0.0)
    info = env.step("1 / 0")[4]
    assert info["reward_components"] == {"tests": 0.0, "runs": -0.1}
    assert env.action_space.max_length == MAX_CODE
    assert env.action_space.character_set == frozenset(CHARACTERS)
    env.close()


def test_make_vec_steps_all_at_once() -> None:
    envs = gymnasium.make_vec(
        "openenv/Coding-v0",
        num_envs=3,
        num_servers=1,
        provider="thread",
        allow_unisolated=True,
        allow_unsandboxed=True,
    )
    envs.reset(seed=1)
    observations, rewards, *_ = envs.step(["1 + 1", "x = 5", "1 / 0"])
    assert observations["result"] == ("2", "", "")
    assert rewards.tolist() == [0.0, 0.0, -0.1]
    envs.close()


def test_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SANDBOX_VARIABLE, "1")
    server = Server(app)
    host, port = server.listen_tcp("127.0.0.1", 0)
    server.start()
    try:
        with CodingEnv(base_url=f"http://{host}:{port}").sync() as client:
            client.reset(seed=1)
            result = client.step(CodeAction(code="print(6 * 7)"))
            assert (result.observation.stdout, result.reward, result.done) == ("42\n", 0.0, False)
            state = client.state()
            assert isinstance(state, CodeState)
            assert (state.last_exit_code, state.step_count) == (0, 1)
            assert client.call_tool("run_python", code="6 * 7")["result"] == "42"
    finally:
        server.stop()


def test_importing_the_package_loads_nothing() -> None:
    check = (
        "import sys, coding_env.server.inside.keeper; "
        "sys.exit(any(name in sys.modules for name in ('pydantic', 'numpy', 'openenv_gym')))"
    )
    path = ":".join(each for each in sys.path if each)
    done = subprocess.run([sys.executable, "-S", "-c", check], env={"PYTHONPATH": path})
    assert done.returncode == 0


def test_manifest_agrees_with_the_code() -> None:
    manifest = load_manifest(PACKAGE / "openenv.yaml")
    assert (manifest.name, manifest.license, manifest.untrusted) == ("coding_env", "MIT", True)
    assert (manifest.distribution, manifest.image) == ("openenv-gym-coding", "openenv-gym-coding")
    (entry,) = manifest.ids
    assert entry.id == "Coding-v0"
    assert list(entry.render_modes or ()) == CodingEnvironment.metadata["render_modes"]
    assert entry.render_fps == CodingEnvironment.metadata["render_fps"]


def test_spaces_are_small() -> None:
    """They travel in each handshake."""
    from openenv_gym.spaces import space_to_data

    space = ModelMapping.of(CodingEnvironment.observation_model).space
    assert len(str(space_to_data(space)).encode()) < 200_000


def test_every_option_is_in_the_readme() -> None:
    import inspect

    readme = (PACKAGE / "README.md").read_text()
    for name in inspect.signature(CodingEnvironment).parameters:
        assert f"`{name}`" in readme, name
