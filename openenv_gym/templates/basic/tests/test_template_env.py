"""Rules of Gymnasium, ends, options, saved states, and the environment on a server."""

from __future__ import annotations

from typing import Any

import gymnasium
import openenv_gym  # noqa: F401, it registers the ids
import pytest
from gymnasium.utils.env_checker import check_env
from openenv_gym.errors import InvalidOptionError
from openenv_gym.server.adapter import TypedEnv

from template_env import TemplateAction, TemplateEnv
from template_env.server.template_environment import TemplateEnvironment


LEFT, RIGHT = TemplateAction(move="left"), TemplateAction(move="right")


def test_it_keeps_the_rules_of_gymnasium() -> None:
    check_env(TypedEnv(TemplateEnvironment()), skip_render_check=True)


def test_who_walks_towards_the_goal_arrives() -> None:
    environment = TemplateEnvironment()
    seen = environment.reset(seed=3)
    distance = abs(seen.goal - seen.position)
    for _ in range(distance):
        seen = environment.step(RIGHT if seen.goal > seen.position else LEFT)
    assert seen.done and not seen.truncated
    assert environment.state.step_count == distance


def test_equal_seeds_make_equal_episodes() -> None:
    first, second = TemplateEnvironment(), TemplateEnvironment()
    assert first.reset(seed=5) == second.reset(seed=5)
    assert first.reset() == second.reset()


def test_a_state_that_was_saved_comes_back() -> None:
    environment = TemplateEnvironment(render_mode="ansi")
    environment.reset(seed=1)
    saved, picture = environment.save_state(), environment.render()
    environment.step(LEFT)
    environment.restore_state(saved)
    assert environment.render() == picture


@pytest.mark.parametrize(
    ("option", "value"), [("size", 1), ("size", 1.5), ("max_steps", 0), ("render_mode", "human")]
)
def test_wrong_options_are_named(option: str, value: Any) -> None:
    with pytest.raises(InvalidOptionError, match=option):
        TemplateEnvironment(**{option: value})


def test_on_a_server(server: str) -> None:
    env = gymnasium.make("openenv/Remote-v0", base_url=server, size=2, max_steps=3)
    env.reset(seed=0)
    rewards = [env.step(action)[1] for action in (0, 1)]
    assert 1.0 in rewards
    env.close()
    with TemplateEnv(base_url=server).sync() as client:
        client.reset(seed=0)
        assert client.step(LEFT).reward is not None
