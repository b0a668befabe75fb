"""``openenv-gym bench``: what it measures and says, not how fast anything is."""

from __future__ import annotations

import json
from typing import Any

import gymnasium
import numpy as np
import pytest
from click.testing import CliRunner, Result
from gymnasium.vector import SyncVectorEnv

from openenv_gym.cli.findings import findings, shares
from openenv_gym.cli.main import main
from openenv_gym.cli.measuring import PARTS, Figures, Subject, make_local, measure
from openenv_gym.registration import lookup
from openenv_gym.server.adapter import TypedEnv
from tests.conformance.worlds import Tools


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["bench", *arguments])


def test_every_place_is_measured_or_left_out_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
    done = _run("CartPole-v1", "--num-envs", "2", "--steps", "6", "--rounds", "3", "--json")
    assert done.exit_code == 0, done.output
    facts: dict[str, Any] = json.loads(done.stdout)
    rows = {row["name"]: row for row in facts["rows"]}
    assert [*rows] == [
        "in this process",
        "in a process",
        "in a container",
        "SyncVectorEnv",
        "AsyncVectorEnv",
        "vector in a process",
        "vector in a container",
    ]
    for name, row in rows.items():
        if row["where"] == "container":
            assert "ProviderUnavailableError" in row["problem"] and "step_us" not in row
            continue
        assert row["problem"] is None, row
        assert row["steps"] == 6 and len(row["rounds_step_us"]) == 3
        assert row["step_us"] == sorted(row["rounds_step_us"])[1]
        envs = max(row["num_envs"], 1)
        assert row["observations_per_s"] == pytest.approx(envs * 1e6 / row["step_us"])
        assert set(row["parts_us"]) == (set(PARTS) if row["where"] == "process" else set())
        assert row["observation_bytes"] == 16, name
    assert rows["vector in a process"]["num_servers"] == 1
    assert any("SyncVectorEnv" in sentence for sentence in facts["findings"])


def test_people_get_a_table_and_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
    done = _run("CartPole-v1", "--num-envs", "0", "--rounds", "1", "--steps", "5")
    assert done.exit_code == 0, done.output
    assert "environment  queue  wire  encode  decode" in done.stdout
    assert "in a container: left out. ProviderUnavailableError: " in done.stdout
    assert "in a process: of " in done.stdout and "VectorEnv" not in done.stdout
    assert "round 1 of 1" in done.stderr


def test_what_can_be_measured_nowhere_is_an_error() -> None:
    done = _run("CartPole-v1", "--num-envs", "0", "--option", "no_such=1")
    assert done.exit_code == 1
    assert "can be measured nowhere" in done.stderr and "no_such" in done.stderr
    done = _run("Remote-v0")
    assert done.exit_code == 1 and "no server of its own" in done.stderr


def test_the_local_environment_is_the_one_that_a_server_has() -> None:
    ours, theirs = make_local("openenv/CartPole-v1", {}), gymnasium.make("CartPole-v1")
    assert np.array_equal(ours.reset(seed=3)[0], theirs.reset(seed=3)[0])
    for _ in range(5):
        one, other = ours.step(1), theirs.step(1)
        assert np.array_equal(one[0], other[0]) and one[1:] == other[1:]
    with pytest.raises(gymnasium.error.ResetNeeded):
        make_local("openenv/CartPole-v1", {}).step(0)
    short = make_local("openenv/Gymnasium-v0", {"env_id": "CartPole-v1"})
    assert isinstance(short, gymnasium.wrappers.TimeLimit)


def test_steps_fit_the_slowest_where_nobody_says_how_many() -> None:
    slow = Subject("slow", "local", 0, lambda: _Slow())
    (figures,) = measure([slow], steps=None, rounds=1)
    assert figures.problem is None and 1 <= figures.steps <= 300


class _Slow(gymnasium.Env[Any, Any]):
    observation_space = gymnasium.spaces.Discrete(2)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return 0, {}

    def step(self, action: Any) -> Any:
        import time

        time.sleep(0.002)
        return 1, 0.0, False, False, {}


# -- what is said of figures ----------------------------------------------------------------------


def _figures(
    where: str, step_us: float, num_envs: int = 0, *, num_servers: int = 1, **parts_us: float
) -> Figures:
    parts = {**dict.fromkeys(PARTS, 0.0), **parts_us} if parts_us else {}
    return Figures(
        Subject(f"{where} {num_envs}", where, num_envs, lambda: None),
        steps=1,
        rounds=[step_us / 1e6],
        parts={name: each / 1e6 for name, each in parts.items()},
        num_servers=num_servers if parts else 0,
    )


def _said(*figures: Figures, env_id: str = "Chess-v0") -> str:
    return "\n".join(findings(figures, lookup(env_id), cores=8))


def test_an_environment_that_takes_the_time_is_named() -> None:
    said = _said(
        _figures("local", 1000), _figures("process", 1080, environment=1000, wire=60, encode=5)
    )
    assert "of 1.08 ms for a step the environment's own work takes 93%" in said
    assert "the way there and back 6%" in said
    assert "The environment itself is what takes time" in said


def test_what_being_elsewhere_costs_is_named() -> None:
    said = _said(_figures("local", 10), _figures("process", 60, environment=10, wire=40))
    assert "Being elsewhere adds about 50 us to each step" in said and "make_vec" in said


def test_servers_that_do_not_pay_are_too_many_and_dear_steps_want_more() -> None:
    cheap = _figures("process", 300, 16, num_servers=4, environment=25, wire=100)
    assert "try num_servers=1. In a package of yours `step_us: 6` in openenv.yaml" in _said(cheap)
    dear = _figures("process", 8000, 16, num_servers=2, environment=7500, wire=100)
    assert "there are 8 processors: try num_servers=8" in _said(dear)
    right = _figures("process", 2000, 16, num_servers=8, environment=1500, wire=100)
    assert "num_servers" not in _said(right)


def test_an_engine_and_large_observations_are_pointed_out() -> None:
    vector = _figures("process", 300, 16, environment=100, wire=100)
    assert 'engine="native"' in _said(vector, env_id="CartPole-v1")
    assert "engine=" not in _said(vector)
    vector.observation_bytes = 100_800
    assert "An observation has 98 KiB" in _said(vector)
    vector.num_servers = 2
    assert "preprocess=True one engine" in _said(vector, env_id="Pong-v5")


def test_shares_are_of_the_whole_also_where_means_are_more_than_the_median() -> None:
    share = shares(_figures("process", 100, environment=60, wire=90))
    assert sum(share.values()) == pytest.approx(1.0)
    assert share["environment"] == pytest.approx(0.4)


def test_calls_of_tools_are_drawn_everywhere() -> None:
    chosen = [
        Subject("here", "local", 0, lambda: TypedEnv(Tools())),
        Subject(
            "here, several", "local", 2, lambda: SyncVectorEnv([lambda: TypedEnv(Tools())] * 2)
        ),
    ]
    figures = measure(chosen, steps=5, rounds=1)
    assert [each.problem for each in figures] == [None, None]
