"""The template environment: spaces, rewards, ends, options."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium
import openenv_gym
import pytest
from gymnasium.utils.env_checker import check_env
from openenv_gym.errors import InvalidOptionError
from openenv_gym.server.adapter import TypedEnv

from template_env import TemplateAction, TemplateEnv
from template_env.server.template_environment import TemplateEnvironment


def test_it_keeps_the_rules_of_gymnasium() -> None:
    check_env(TypedEnv(TemplateEnvironment()), skip_render_check=True)


def test_who_walks_towards_the_goal_arrives() -> None:
    environment = TemplateEnvironment()
    seen = environment.reset(seed=3)
    distance = abs(seen.goal - seen.position)
    for _ in range(distance):
        seen = environment.step(
            TemplateAction(move="right" if seen.goal > seen.position else "left")
        )
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
    environment.step(TemplateAction(move="left"))
    environment.restore_state(saved)
    assert environment.render() == picture


@pytest.mark.parametrize(
    ("option", "value"), [("size", 1), ("size", 1.5), ("max_steps", 0), ("render_mode", "human")]
)
def test_wrong_options_are_named(option: str, value: Any) -> None:
    with pytest.raises(InvalidOptionError, match=option):
        TemplateEnvironment(**{option: value})


@pytest.fixture
def server() -> Iterator[str]:
    """Yield the address of a server; what the package serves, in a process."""
    from openenv_gym.providers import ProcessProvider, ServerTarget

    running = ProcessProvider().start(ServerTarget("template_env"))
    yield str(running.address)
    running.stop()


def test_on_a_server(server: str) -> None:
    env = gymnasium.make("openenv/Remote-v0", base_url=server, size=2, max_steps=3)
    env.reset(seed=0)
    rewards = [env.step(action)[1] for action in (0, 1)]
    assert 1.0 in rewards
    env.close()
    with TemplateEnv(base_url=server).sync() as client:
        client.reset(seed=0)
        assert client.step(TemplateAction(move="left")).reward is not None
    assert openenv_gym.__version__
