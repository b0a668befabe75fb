"""Rewards by another rubric, of what was recorded."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from click.testing import CliRunner, Result

from openenv_gym import recording
from openenv_gym.cli.main import main

from .files import Row, changed


SAME = f"{__package__}.rewards:make_rubric"
OTHER = f"{__package__}.rewards:make_other"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["rescore", *map(str, arguments)])


@pytest.fixture(params=[0, 2], ids=["one", "vector"])
def path(request: Any, tmp_path: Path) -> Path:
    how = {"provider": "thread", "rubric": SAME}
    env: Any = gymnasium.make("openenv/CartPole-v1", **how)
    if request.param:
        env.close()
        env = gymnasium.make_vec("openenv/CartPole-v1", num_envs=request.param, **how)
    env = recording.RecordRollout(env, tmp_path / "x")
    env.action_space.seed(1)
    env.reset(seed=5)
    for _ in range(70):
        *_, terminated, truncated, _ = env.step(env.action_space.sample())
        if not request.param and (terminated or truncated):
            env.reset()
    env.close()
    return tmp_path / "x"


def test_the_same_rubric_has_the_same_scores_to_the_bit(path: Path) -> None:
    with recording.open(path) as file:
        found = recording.rescore(file, SAME)
        assert set(found.scores) == {"reward", "upright", "right"}
        assert [score.differing for score in found.scores.values()] == [0, 0, 0]
        assert len(found.steps) == sum(map(len, file)) > 60
        assert found.scores["reward"].rescored.std() > 0.01
        assert (
            found.scores["upright"].recorded[0]
            == file.episodes[0].infos[0]["reward_components"]["upright"]
        )


def test_another_rubric_is_compared(path: Path, tmp_path: Path) -> None:
    table = tmp_path / "steps.csv"
    done = run(path, "--rubric", OTHER, "--json", "--out", table)
    assert done.exit_code == 0, done.output
    facts = json.loads(done.stdout)
    scores = facts["scores"]
    assert scores["upright"]["differing"] == 0 and scores["reward"]["differing"] == facts["steps"]
    assert scores["last"]["recorded"] is None and scores["right"]["rescored"] is None
    with recording.open(path) as file:
        complete = sum(each.complete for each in file)
    assert scores["last"]["rescored"] * facts["steps"] == pytest.approx(complete)
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert len(rows) == facts["steps"]
    assert np.mean([float(row["reward rescored"]) for row in rows]) == pytest.approx(
        scores["reward"]["rescored"]
    )
    shown = run(path, "--rubric", OTHER)
    assert "steps that differ" in shown.stdout and "upright" in shown.stdout


def test_numbers_that_json_does_not_know_are_null(path: Path, tmp_path: Path) -> None:
    def unbound(row: Row) -> Row:
        return row._replace(reward=row.reward + np.inf) if isinstance(row, recording.Step) else row

    done = run(changed(path, tmp_path / "y", unbound), "--rubric", SAME, "--json")
    facts = json.loads(done.stdout, parse_constant=pytest.fail)
    assert facts["scores"]["reward"]["recorded"] is None
    shown = run(tmp_path / "y", "--rubric", SAME)
    assert "inf" in shown.stdout


def test_a_typed_environment_by_its_models(tmp_path: Path) -> None:
    env = recording.RecordRollout(
        gymnasium.make("openenv/Echo-v0", provider="thread"), tmp_path / "x"
    )
    env.reset(seed=1)
    env.action_space.seed(1)
    actions = [env.action_space.sample() for _ in range(3)]
    lengths = [2 * len(env.step(action)[0]["echoed_message"]) for action in actions]
    env.close()
    done = run(
        tmp_path / "x", "--json", "--rubric", f"{__package__}.rewards:Loud",
        "--action-model", "echo_env.models:EchoAction",
        "--observation-model", "echo_env.models:EchoObservation",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["scores"]["reward"]["rescored"] == pytest.approx(
        np.mean(lengths)
    )


@pytest.mark.parametrize(
    ("arguments", "named", "code"),
    [
        (("--rubric", "os:abort"), "expected a rubric", 1),
        (("--rubric", SAME, "--action-model", "os:path"), "os:path is no model", 2),
        (("--rubric", SAME, "--action-model", "none:A"), "none:A cannot be imported", 2),
        ((), "--rubric", 2),
    ],
)
def test_bad_input(tmp_path: Path, arguments: tuple[str, ...], named: str, code: int) -> None:
    recording.RecordRollout(gymnasium.make("CartPole-v1"), tmp_path / "x").close()
    done = run(tmp_path / "x", *arguments)
    assert done.exit_code == code and named in done.stderr and "Traceback" not in done.stderr
