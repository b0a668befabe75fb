"""Rules of Gymnasium, ends, options, and the environment on a server."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import openenv_gym  # noqa: F401, it registers the ids
import pytest
from gymnasium.utils.env_checker import check_env
from openenv_gym.errors import InvalidOptionError

from template_env import TemplateAction, TemplateEnv
from template_env.server.template_environment import TemplateEnvironment


PUSH_RIGHT = np.int64(2)


def test_it_keeps_the_rules_of_gymnasium() -> None:
    check_env(TemplateEnvironment(), skip_render_check=True)


def test_a_cart_that_is_pushed_on_and_on_leaves_the_track() -> None:
    env = TemplateEnvironment()
    env.reset(seed=0)
    ends = [env.step(PUSH_RIGHT)[2] for _ in range(20)]
    assert True in ends


def test_a_picture() -> None:
    env = TemplateEnvironment(render_mode="rgb_array")
    env.reset(seed=0)
    picture = env.render()
    assert picture is not None and picture.shape == (32, 128, 3)


@pytest.mark.parametrize(("option", "value"), [("force", 0), ("render_mode", "human")])
def test_wrong_options_are_named(option: str, value: Any) -> None:
    with pytest.raises(InvalidOptionError, match=option):
        TemplateEnvironment(**{option: value})


def test_on_a_server(server: str) -> None:
    here = TemplateEnvironment(force=0.2)
    there = gymnasium.make("openenv/Remote-v0", base_url=server, force=0.2)
    assert np.array_equal(here.reset(seed=4)[0], there.reset(seed=4)[0])
    assert here.step(PUSH_RIGHT)[1] == there.step(PUSH_RIGHT)[1]
    there.close()
    with TemplateEnv(base_url=server).sync() as client:
        client.reset(seed=0)
        seen = client.step(TemplateAction(action=1)).observation
        assert seen.observation.shape == (2,)
