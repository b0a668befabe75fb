"""OpenEnv's client, and its validator, on our servers."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import ale_py
import gymnasium
import numpy as np
import pytest

from tests.integration.openenv.running import openenv_program, ours


pytestmark = [pytest.mark.openenv, pytest.mark.timeout(300)]

DRIVE = Path(__file__).with_name("drive.py")

Script = list[list[Any]]


def drive(url: str, script: Script) -> list[Any]:
    """Have OpenEnv's client do something."""
    command = [openenv_program("python"), DRIVE, url, json.dumps(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    answers: list[Any] = json.loads(done.stdout.splitlines()[-1])
    return answers


@pytest.mark.parametrize("more", [(), ("--workers", "2"), ("--isolate-sessions",)], ids=str)
def test_echo(more: tuple[str, ...]) -> None:
    with ours("echo_env", *more) as url:
        script = [
            ["reset", {}],
            ["step", {"message": "Hello"}],
            ["step", {"massage": "Hello"}],
            ["reset", {"sed": 1}],
            ["step", {"message": "!"}],
            ["state"],
        ]
        answers = drive(url, script)
    assert answers[0]["observation"]["echoed_message"] == "Echo environment ready!"
    assert answers[1]["observation"]["echoed_message"] == "Hello"
    assert answers[1]["reward"] == 0.5 and answers[1]["done"] is False
    assert "massage" in answers[2]["text"] or "VALIDATION_ERROR" in answers[2]["text"]
    assert "sed" in answers[3]["text"]
    assert answers[4]["observation"]["echoed_message"] == "!"
    assert answers[5]["step_count"] == 2


def test_atari() -> None:
    gymnasium.register_envs(ale_py)
    env = gymnasium.make("ALE/Pong-v5", repeat_action_probability=0.0)
    first, _ = env.reset(seed=3)
    then, *_ = env.step(2)
    env.close()
    options = ("--option", "game=pong", "--option", "repeat_action_probability=0.0")
    with ours("atari_env", *options) as url:
        answers = drive(url, [["reset", {"seed": 3}], ["step", {"action_id": 2}]])
    assert "error" not in answers[0] and "error" not in answers[1]
    frames = [np.array(picture(answer["observation"]), np.uint8) for answer in answers]
    assert frames[0].shape == first.shape
    assert np.array_equal(frames[0], first) and np.array_equal(frames[1], then)


def test_connect4() -> None:
    """It plays both sides, as on OpenEnv's own server."""
    columns = [3, 2, 3, 2, 3, 2, 3]
    with ours("connect4_env", "--option", "opponent=self") as url:
        script: Script = [["reset", {"seed": 1}], *(["step", {"column": c}] for c in columns)]
        answers = drive(url, [*script, ["step", {"column": 1}], ["state"]])
    assert answers[0]["observation"]["legal_actions"] == list(range(7))
    assert answers[0]["observation"]["board"] == [[0] * 7] * 6
    assert answers[1]["observation"]["board"][5] == [0, 0, 0, 1, 0, 0, 0]
    assert [answer["metadata"]["next_player"] for answer in answers[:3]] == [1, -1, 1]
    assert [answer["reward"] for answer in answers[1:8]] == [0.0] * 6 + [1.0]
    assert [answer["done"] for answer in answers[1:8]] == [False] * 6 + [True]
    assert "over" in answers[8]["text"]
    assert answers[9]["next_player"] == -1 and answers[9]["step_count"] == 7


# What OpenEnv's client sends to environments that OpenEnv has as well, and what it gets back.
SMALL: dict[str, tuple[tuple[str, ...], Script, dict[str, Any]]] = {
    "grid_world_env": (
        (),
        [["reset", {}], ["step", {"action": "DOWN"}], ["step", {"action": "NORTH"}], ["state"]],
        {"x": 1, "y": 0, "message": ""},
    ),
    "maze_env": (
        ("--option", 'maze=["S.","E."]'),
        [["reset", {"seed": 1}], ["step", {"action": 3}], ["step", {"action": 9}], ["state"]],
        {"legal_actions": [1, 2], "current_position": [1, 0], "previous_position": [0, 0]},
    ),
    "snake_env": (
        ("--option", "height=8", "--option", "width=8"),
        [["reset", {"seed": 1}], ["step", {"action": 1}], ["step", {"action": 9}], ["state"]],
        {"episode_steps": 1, "episode_kills": 0},
    ),
    "textarena_env": (
        ("--option", "env_id=GuessTheNumber-v0"),
        [["reset", {"seed": 1}], ["step", {"message": "[9]"}], ["step", {"massage": 1}], ["state"]],
        {"current_player_id": 0, "legal_players": [0]},
    ),
}


@pytest.mark.parametrize("environment", SMALL)
def test_small_environments(environment: str) -> None:
    options, script, wanted = SMALL[environment]
    with ours(environment, *options) as url:
        first, then, wrong, state = drive(url, script)
    assert first["done"] is False
    seen = then["observation"]
    assert {name: seen[name] for name in wanted} == wanted
    assert isinstance(then["reward"], float)
    assert "error" in wrong
    assert state["step_count"] == 1
    if environment == "snake_env":
        grid, planes = np.array(seen["grid"]), np.array(seen["observation"])
        assert np.array_equal(planes[..., 7] == 1, grid == 5)
    if environment == "textarena_env":
        assert seen["messages"][-1]["sender_id"] == -1
        assert "raw_state" not in state


def picture(observation: dict[str, Any]) -> Any:
    (found,) = [value for name, value in observation.items() if name != "metadata"]
    return found


# Observation after reset(seed=7), and after each of the actions, as Gymnasium has it here.
HOSTED: dict[str, list[Any]] = {
    "CartPole-v1": [0, 1, 1, 0],
    "Blackjack-v1": [1, 0],
    "FrozenLake-v1": [2, 1, 1, 2],
    "Pendulum-v1": [[0.5], [-1.0], [2.0]],
    "MountainCarContinuous-v0": [[1.0], [-1.0]],
}


@pytest.mark.parametrize("env_id", HOSTED)
def test_a_hosted_environment(env_id: str) -> None:
    actions = HOSTED[env_id]
    with ours("gymnasium", "--option", f"env_id={env_id}") as url:
        script: Script = [["reset", {"seed": 7}], *(["step", {"action": a}] for a in actions)]
        answers = drive(url, script)
    env = gymnasium.make(env_id)
    expected, _ = env.reset(seed=7)
    assert_equal(answers[0]["observation"], expected)
    for action, answer in zip(actions, answers[1:], strict=True):
        typed = np.array(action, np.float32) if isinstance(action, list) else action
        expected, reward, terminated, truncated, _ = env.step(typed)
        assert_equal(answer["observation"], expected)
        assert answer["reward"] == pytest.approx(float(reward), abs=0)
        assert answer["done"] is bool(terminated or truncated)
    env.close()


def assert_equal(observation: dict[str, Any], expected: Any) -> None:
    found = observation["observation"]
    if isinstance(expected, tuple):
        assert list(found) == [int(part) for part in expected]
    else:
        assert np.array_equal(np.asarray(found, np.asarray(expected).dtype), expected)


def test_an_episode_that_is_cut_off() -> None:
    actions = [["step", {"action": [0.0]}]] * 201
    with ours("gymnasium", "--option", "env_id=Pendulum-v1") as url:
        answers = drive(url, [["reset", {"seed": 1}], *actions[:200]])
    assert [answer["done"] for answer in answers[1:]] == [False] * 199 + [True]
    assert answers[-1]["metadata"]["truncated"] is True


@pytest.mark.parametrize(
    "served",
    [
        ("echo_env",),
        ("atari_env",),
        ("grid_world_env",),
        ("maze_env",),
        ("snake_env",),
        ("textarena_env", "--option", "env_id=TicTacToe-v0"),
        ("gymnasium", "--option", "env_id=CartPole-v1"),
        ("gymnasium",),
        ("echo_env", "--workers", "2"),
        ("echo_env", "--isolate-sessions"),
        ("echo_env", "--mode", "production"),
    ],
    ids=" ".join,
)
def test_the_validator_passes(served: tuple[str, ...]) -> None:
    with ours(*served) as url:
        command = [openenv_program("openenv"), "validate", "--url", url]
        done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Verdict: PASS" in done.stdout and "FAIL" not in done.stdout
