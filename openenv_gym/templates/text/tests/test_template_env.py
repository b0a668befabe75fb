"""Rules of Gymnasium, rewards, ends, options, and the environment on a server."""

from __future__ import annotations

import re
from typing import Any

import gymnasium
import openenv_gym  # noqa: F401, it registers the ids
import pytest
from gymnasium.utils.env_checker import check_env
from openenv_gym.errors import InvalidOptionError
from openenv_gym.server.adapter import TypedEnv

from template_env import TemplateAction, TemplateEnv
from template_env.server.template_environment import TemplateEnvironment


def _solve(task: str) -> str:
    return str(sum(map(int, re.findall(r"\d+", task))))


def test_it_keeps_the_rules_of_gymnasium() -> None:
    check_env(TypedEnv(TemplateEnvironment()), skip_render_check=True)


@pytest.mark.parametrize(("answer", "reward"), [("", 0.0), ("five", 0.0), ("5", 0.1)])
def test_a_wrong_answer_earns_its_form_alone(answer: str, reward: float) -> None:
    env = TypedEnv(TemplateEnvironment())
    env.reset(seed=0)
    observation, got, terminated, truncated, _ = env.step(answer)
    assert (observation, got, terminated, truncated) == ("Wrong, try again.", reward, False, False)


def test_the_right_answer_ends_the_episode() -> None:
    env = TypedEnv(TemplateEnvironment())
    task, _ = env.reset(seed=0)
    assert env.step(_solve(task))[:4] == ("Right.", 1.0, True, False)


def test_so_do_too_many_wrong_ones() -> None:
    env = TypedEnv(TemplateEnvironment(tries=1, render_mode="ansi"))
    env.reset(seed=0)
    assert env.step("0")[2:4] == (False, True)
    assert str(env.render()).endswith("> 0\nWrong.")


@pytest.mark.parametrize(("option", "value"), [("tries", 0), ("render_mode", "human")])
def test_wrong_options_are_named(option: str, value: Any) -> None:
    with pytest.raises(InvalidOptionError, match=option):
        TemplateEnvironment(**{option: value})


def test_on_a_server(server: str) -> None:
    env = gymnasium.make("openenv/Remote-v0", base_url=server)
    task, _ = env.reset(seed=1)
    assert env.step(_solve(task))[1] == 1.0
    env.close()
    with TemplateEnv(base_url=server).sync() as client:
        task = client.reset(seed=1).observation.text
        assert client.step(TemplateAction(message=_solve(task))).reward == 1.0
