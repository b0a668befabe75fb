"""Trainers, unmodified: with equal seeds they learn on servers what they learn locally."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from tests.integration.trainers.cases import CASES, SHORT, Case


pytestmark = [pytest.mark.trainers, pytest.mark.timeout(1200)]


def compare(case: Case, folder: Path, provider: str = "process") -> None:
    if not case.python.exists():
        pytest.skip(f"{case.trainer} is not installed: run `python3 dev.py trainers`")
    hosted = case.train(folder, hosted=True, provider=provider)
    local = case.train(folder, hosted=False)
    assert hosted["curve"] == local["curve"]
    assert hosted["weights"] == local["weights"]
    returns = [value for _, value in hosted["curve"]]
    assert returns or not case.episodes
    if case.learns:
        quarter = max(1, len(returns) // 4)
        begin, end = statistics.mean(returns[:quarter]), statistics.mean(returns[-quarter:])
        assert end > 1.5 * begin


def test_ppo_in_one_file_in_short(tmp_path: Path) -> None:
    compare(SHORT, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_the_same_is_learned(name: str, tmp_path: Path) -> None:
    compare(CASES[name], tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("name", ["ppo", "stable_baselines3", "rllib"])
def test_the_same_is_learned_in_containers(name: str, tmp_path: Path, docker: object) -> None:
    compare(CASES[name], tmp_path, "docker")
