"""``openenv-gym rollout``."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from gymnasium import spaces

from openenv_gym import recording
from openenv_gym.cli.main import main
from openenv_gym.cli.rollout import Tally
from openenv_gym.cli.rollout import _show as show_tally
from openenv_gym.policies import Chance
from openenv_gym.vector.infos import info_of
from tests.conformance.worlds import Tools
from tests.support.serving import serving


@pytest.fixture(autouse=True)
def _in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENENV_PROVIDER", "thread")


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["rollout", *arguments])


def _facts(*arguments: str) -> dict[str, Any]:
    done = _run(*arguments, "--json")
    assert done.exit_code == 0, done.output
    facts: dict[str, Any] = json.loads(done.stdout)
    return facts


def test_equal_seeds_give_equal_returns() -> None:
    arguments = ["CartPole-v1", "--num-envs", "3", "--steps", "80", "--seed", "4"]
    first, second = _facts(*arguments), _facts(*arguments)
    assert first["episodes"] == first["terminated"] > 3
    for key in ("steps", "episodes", "return_mean", "return_std", "length_mean"):
        assert first[key] == second[key]
    # The step that follows an end only resets: it has no action, and is none.
    assert 240 - first["episodes"] <= first["steps"] <= 240
    assert first["return_mean"] == first["length_mean"]  # CartPole's reward is 1 a step


@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
def test_episodes_are_counted_however_they_begin_anew(tmp_path: Path, mode: str) -> None:
    file = tmp_path / "x"
    facts = _facts(
        "CartPole-v1", "--num-envs", "3", "--steps", "120", "--seed", "4", "--out", str(file),
        "--option", f"autoreset_mode={mode}",
    )  # fmt: skip
    idle = facts["episodes"] if mode == "NextStep" else 0  # steps that only reset
    assert facts["episodes"] > 8 and 360 - idle <= facts["steps"] <= 360 - max(idle - 3, 0)
    assert facts["return_mean"] == facts["length_mean"]
    with recording.open(file) as recorded:
        lengths = [len(episode) for episode in recorded if episode.complete]
        assert facts["steps"] == sum(map(len, recorded))
        assert (facts["episodes"], facts["length_mean"]) == (len(lengths), np.mean(lengths))
        assert recording.replay(recorded).exact


def test_masks_are_kept_of_those_that_do_not_begin_anew() -> None:
    # One that goes on has no mask in the infos of a reset of others: its last one counts.
    facts = _facts(
        "Taxi-v4", "--num-envs", "3", "--steps", "30", "--seed", "1",
        "--option", "autoreset_mode=Disabled", "--option", "max_episode_steps=7",
    )  # fmt: skip
    assert (facts["steps"], facts["episodes"], facts["return_mean"]) == (90, 12, -7.0)


def test_numbers_that_json_does_not_know_are_null(capsys: pytest.CaptureFixture[str]) -> None:
    for value in (math.nan, math.inf, -math.inf):
        tally = Tally(1, 2, 1.0, returns=[value, 1.0], lengths=[1, 1])
        show_tally("openenv/CartPole-v1", tally, {}, as_json=True)
        facts = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
        assert facts["return_mean"] is None and facts["length_mean"] == 1.0
        show_tally("openenv/CartPole-v1", tally, {}, as_json=False)
        assert str(value) in capsys.readouterr().out


def test_a_summary_for_people_with_progress_beside_it() -> None:
    done = _run("CartPole-v1", "--steps", "50", "--seed", "1")
    assert done.exit_code == 0
    assert "steps/s" in done.stdout and "return" in done.stdout
    assert "starting openenv/CartPole-v1" in done.stderr and "starting" not in done.stdout


def test_a_policy_from_a_file(tmp_path: Path) -> None:
    policy = tmp_path / "policy.py"
    policy.write_text(
        "def lean(observation):\n    return int(observation[2] + observation[3] > 0)\n"
        "def informed(observation, info):\n    assert info == {}\n    return 0\n"
    )
    good = _facts("CartPole-v1", "--steps", "200", "--seed", "0", "--policy", f"{policy}:lean")
    bad = _facts("CartPole-v1", "--steps", "200", "--seed", "0", "--policy", f"{policy}:informed")
    assert good["episodes"] == 0 or good["return_mean"] > 100
    assert bad["return_mean"] < 15


def test_masks_are_honoured() -> None:
    chance = Chance(spaces.Discrete(5), 2)
    mask = np.array([0, 1, 0, 1, 0], dtype=np.int8)
    assert {chance.draw(0, mask) for _ in range(40)} == {1, 3}
    assert chance.draw(1, np.zeros(5, dtype=np.int8)) in range(5)
    infos = {"a": np.array([1, 2]), "_a": np.array([True, False]), "b": {"c": [3, 4], "_c": [1, 1]}}
    assert info_of(infos, 0) == {"a": 1, "b": {"c": 3}} and info_of(infos, 1) == {"b": {"c": 4}}


def test_calls_of_tools_are_drawn_where_actions_are_those(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("first", "second")]
    with serving(Tools) as url:  # which takes nothing else
        arguments = ["openenv/Remote-v0", "--base-url", url, "--num-envs", "2", "--steps", "30"]
        for file in files:
            assert _facts(*arguments, "--seed", "3", "--out", str(file))["steps"] == 60
    actions = [_actions_of(file) for file in files]
    assert actions[0] == actions[1] and len(set(actions[0])) == 3  # to wait, to add 0 and to add 9


def _actions_of(file: Path) -> list[str]:
    with recording.open(file) as recorded:
        return [str(action) for episode in recorded for action in episode.actions]


def test_a_video(tmp_path: Path) -> None:
    pytest.importorskip("moviepy")
    video = tmp_path / "cart.mp4"
    assert _facts("CartPole-v1", "--steps", "10", "--video", str(video))["video"] == str(video)
    assert video.read_bytes()[4:8] == b"ftyp"
    assert list(tmp_path.iterdir()) == [video]


@pytest.mark.parametrize(
    ("arguments", "named", "code"),
    [
        (["Cartpol-v1"], "Did you mean 'openenv/CartPole-v1'?", 1),
        (["CartPole-v1", "--num-envs", "0"], "--num-envs", 2),
        (["CartPole-v1", "--option", "game"], "KEY=VALUE", 2),
        (["CartPole-v1", "--option", "nonsense=1"], "nonsense", 1),
        (["CartPole-v1", "--policy", "policy"], "PATH:FUNCTION", 2),
        (["CartPole-v1", "--policy", "none.py:act"], "none.py cannot be imported", 2),
        (["CartPole-v1", "--policy", "json:act"], "no function 'act'", 2),
        (["CartPole-v1", "--video", "x.gif"], ".mp4", 2),
        (["CartPole-v1", "--provider", "thread", "--base-url", "http://x"], "--base-url", 2),
        (["Remote-v0"], "base_url", 1),
    ],
)
def test_bad_input(arguments: list[str], named: str, code: int) -> None:
    done = _run(*arguments)
    assert done.exit_code == code and named in done.stderr and "Traceback" not in done.stderr
