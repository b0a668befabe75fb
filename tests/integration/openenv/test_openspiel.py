"""OpenEnv's clients play OpenSpiel's games on our server."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from openspiel_env.models import OpenSpielObservation
from openspiel_env.server.openspiel_environment import OpenSpielEnvironment
from tests.integration.openenv.running import openenv_program, ours
from tests.integration.openenv.test_their_client import drive


pytestmark = [pytest.mark.openenv, pytest.mark.timeout(300)]

CLIENT = Path(__file__).with_name("openspiel_client.py")


@pytest.mark.parametrize("game", ["catch", "tic_tac_toe", "kuhn_poker", "blackjack"])
def test_a_typed_client_plays_a_game(game: str) -> None:
    with ours("openspiel_env", "--option", f"game={game}") as url:
        done = subprocess.run(
            [openenv_program("python"), CLIENT, url, "5"],
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    environment = OpenSpielEnvironment(game)
    expected = [environment.reset(seed=5)]
    while not expected[-1].done:
        action = environment.legal_actions()[0]
        expected.append(environment.step(environment.read_action(action)))
    assert len(told["seen"]) == len(expected)
    for seen, here in zip(told["seen"], expected, strict=True):
        assert isinstance(here, OpenSpielObservation)
        assert np.array_equal(np.asarray(seen["info_state"], np.float32), here.info_state)
        fields = json.loads(here.model_dump_json(exclude={"metadata", "info_state", "truncated"}))
        assert {name: seen[name] for name in fields} == fields
    assert told["state"]["game_name"] == game
    assert told["state"]["step_count"] == len(expected) - 1


def test_dictionaries_play_blackjack_in_words() -> None:
    call = {"type": "call_tool", "tool_name": "play", "arguments": {"action": "stand"}}
    with ours("openspiel_env", "--option", "rules=gymnasium") as url:
        answers = drive(
            url,
            [["reset", {"seed": 1}], ["step", {"message": "I stand."}], ["reset", {}], ["step", call]],
        )  # fmt: skip
    assert answers[0]["observation"]["prompt"].startswith("You are playing blackjack")
    assert answers[0]["metadata"]["legal_actions"] == ["hit", "stand"]
    assert answers[1]["done"] and answers[1]["reward"] in (-1.0, 0.0, 1.0)
    assert "The game is over" in answers[3]["observation"]["result"]["data"]
    assert answers[3]["done"]


@pytest.mark.parametrize("options", [(), ("--option", "rules=openspiel")], ids=["game", "words"])
def test_the_validator_passes(options: tuple[str, ...]) -> None:
    with ours("openspiel_env", *options) as url:
        command = [openenv_program("openenv"), "validate", "--url", url]
        done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Verdict: PASS" in done.stdout and "FAIL" not in done.stdout
