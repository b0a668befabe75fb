"""``create_web_interface_app`` serves the environment that it is given."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from openenv_gym import errors
from openenv_gym.models import Action, Observation
from openenv_gym.server import Environment, create_web_interface_app
from tests.support.serving import serving
from tests.web.test_tabs import Site, news, site


class LevelAction(Action):
    by: int = 1


class LevelObservation(Observation):
    level: int


class Typed(Environment[LevelAction, LevelObservation, Any]):
    """Says what level it has."""

    action_model = LevelAction
    observation_model = LevelObservation
    metadata = {"render_modes": ["rgb_array"]}

    def __init__(self, level: int = 1, render_mode: str | None = None) -> None:
        self.level = level
        self.render_mode = render_mode

    def reset(self, *, seed: Any = None, options: Any = None) -> LevelObservation:
        self.begin_episode(seed)
        return LevelObservation(level=self.level)

    def step(self, action: LevelAction) -> LevelObservation:
        return LevelObservation(level=self.level, reward=0.0)


class Plain(gymnasium.Env[Any, Any]):
    """Says what level it has, and closes what it had at each reset."""

    metadata = {"render_modes": ["rgb_array"]}
    action_space = spaces.Discrete(2)
    observation_space = spaces.Discrete(100)

    def __init__(self, level: int = 1, render_mode: str | None = None) -> None:
        self.level = level
        self.render_mode = render_mode

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.close()
        return self.level, {}

    def step(self, action: Any) -> Any:
        return self.level, 0.0, False, False, {}

    def render(self) -> Any:
        return np.zeros((4, 4, 3), np.uint8)


class TypedWithNeeds(Typed):
    def __init__(self, level: int) -> None:
        super().__init__(level)


class PlainWithNeeds(Plain):
    def __init__(self, level: int) -> None:
        super().__init__(level)


def level(tab: Any) -> Any:
    """Return what a tab shows."""
    tab.reset(None, None)
    panels = {panel["label"]: panel for panel in news(tab)[-1]["panels"]}
    (value,) = panels["Numbers"]["values"]
    return value


def opened(made: Site) -> Any:
    tab = made.tab()
    tab.open({})
    return tab


@pytest.mark.parametrize("cls", [Typed, Plain, TypedWithNeeds, PlainWithNeeds])
def test_one_session_after_the_other_has_the_environment_that_was_given(cls: Any) -> None:
    with site(create_web_interface_app(cls(level=3))) as made:
        for _ in range(3):  # the page, loaded anew
            tab = opened(made)
            assert level(tab) == 3
            tab.open({})  # and "New environment"
            assert level(tab) == 3
            tab.close()


@pytest.mark.parametrize("cls", [Typed, Plain])
def test_who_comes_meanwhile_gets_one_of_its_class(cls: Any) -> None:
    with site(create_web_interface_app(cls(level=3))) as made:
        first, second, third = opened(made), opened(made), made.tab()
        third.open({"level": 7})
        assert [level(tab) for tab in (first, second, third)] == [3, 1, 7]
        second.close()
        assert level(first) == 3
        first.close()
        assert level(opened(made)) == 3


@pytest.mark.parametrize("cls", [TypedWithNeeds, PlainWithNeeds])
def test_one_that_cannot_be_made_again_is_refused_while_somebody_has_it(cls: Any) -> None:
    with site(create_web_interface_app(cls(3))) as made:
        first = opened(made)
        level(first)
        with pytest.raises(errors.CapacityError, match="another session has"):
            opened(made)
        first.close()
        assert level(opened(made)) == 3


@pytest.mark.parametrize("cls", [TypedWithNeeds, PlainWithNeeds, Typed])
def test_who_asks_for_its_schemas_takes_it_from_nobody(cls: Any) -> None:
    app = create_web_interface_app(cls(3))

    def schema(url: str) -> Any:
        with urllib.request.urlopen(f"{url}/schema", timeout=10) as answer:
            return json.load(answer)

    with serving(app) as url:
        before = schema(url)
        assert before["action"]["properties"]
        host = app.open({})
        assert app.schemas()["action"] == before["action"]
        host.close()
        app.open({}).close()


def test_an_environment_that_was_given_is_closed_when_the_program_ends() -> None:
    code = (
        "from tests.server.test_web_interface import Typed, create_web_interface_app\n"
        "class Told(Typed):\n"
        "    def close(self): print('closed')\n"
        "app = create_web_interface_app(Told(3))\n"
        "for _ in range(2): app.open({}).close()\n"
        "print('the end')\n"
    )
    root = Path(__file__).parents[2]
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root
    )
    assert ended.stdout.splitlines() == ["the end", "closed"]
