"""What nobody expects of an environment is shown all the same, and ends nothing."""

from __future__ import annotations

import json
import math
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from openenv_gym.server import create_app
from openenv_gym.web import tabs as tabs_module
from openenv_gym.web import watching as watching_module
from openenv_gym.web.keyboard import Player
from openenv_gym.web.tabs import Tab
from openenv_gym.web.views import has_picture, panels_of
from tests.support.waiting import eventually
from tests.web.test_tabs import news, site


REWARDS = (1.0, math.nan, math.inf, -math.inf, 2.0)


class OddEnv(gymnasium.Env[Any, Any]):
    """Its action is which of the rewards it gives."""

    metadata = {"render_modes": []}
    action_space = spaces.Discrete(len(REWARDS))
    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        return np.zeros(2), {}

    def step(self, action: Any) -> Any:
        reward = REWARDS[int(action)]
        return np.array([reward, 0.0]), reward, False, False, {"also": reward}


def read(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message as a browser reads it, which takes no NaN."""

    def refuse(word: str) -> Any:
        raise AssertionError(f"a browser cannot read {word}")

    found: dict[str, Any] = json.loads(json.dumps(message), parse_constant=refuse)
    return found


def begun(made: Any) -> Tab:
    tab: Tab = made.tab()
    tab.open({})
    tab.reset(None, None)
    news(tab)
    return tab


@pytest.mark.parametrize(("action", "word"), [(1, "nan"), (2, "inf"), (3, "-inf")])
def test_a_reward_that_is_no_number_is_shown_and_so_is_the_rest_of_the_episode(
    action: int, word: str
) -> None:
    with site(create_app(OddEnv)) as made:
        tab = begun(made)
        tab.step({"action": action})
        (view,) = map(read, news(tab))
        assert (view["reward"], view["return"]) == (word, word)
        assert view["rows"][0]["reward"] == word
        tab.step({"action": 4})
        (view,) = map(read, news(tab))
        assert (view["step"], view["reward"], view["return"]) == (2, 2.0, word)
        tab.raw()
        raw = next(map(read, news(tab)))
        assert raw["value"]["reward"] == 2.0


def test_a_watcher_is_shown_such_rewards_too() -> None:
    with site(create_app(OddEnv)) as made:
        trainer, viewer = begun(made), begun(made)
        viewer.watch(trainer.session_name, 0)
        told: list[dict[str, Any]] = []

        def seen() -> bool:
            trainer.step({"action": 1})
            told.extend(map(read, news(viewer)))
            return any(each.get("watched") for each in told)

        assert eventually(seen)
        view = next(each for each in told if each.get("watched"))
        assert (view["reward"], view["return"]) == ("nan", "nan")


# -- observations ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (np.zeros((0, 64, 64, 3), np.uint8), "uint8 0x64x64x3, with nothing in it"),
        (np.zeros((0, 64, 64), np.uint8), "uint8 0x64x64, with nothing in it"),
        (np.zeros((0, 3), np.int8), "int8 0x3, with nothing in it"),
        (np.zeros((3, 0), np.int8), "int8 3x0, with nothing in it"),
        (np.zeros(0, np.float32), "float32 0, with nothing in it"),
        (np.zeros((20, 20, 20), np.bool_), "bool 20x20x20, from 0 to 0"),
        (np.full((3000,), "a"), "<U1 3000"),
    ],
    ids=lambda value: f"{value.dtype}{value.shape}" if hasattr(value, "dtype") else "",
)
def test_arrays_that_nothing_can_be_drawn_of_are_told_in_words(value: Any, says: str) -> None:
    assert not has_picture(value)
    (panel,) = panels_of({"frames": value})
    assert (panel["type"], panel["label"], panel["text"]) == ("text", "frames", says)


def test_a_field_that_cannot_be_shown_says_so_and_the_others_are_shown(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Strange(list):  # type: ignore[type-arg]
        def __len__(self) -> int:
            raise RuntimeError("of no length")

    panels = panels_of({"first": "a", "strange": Strange([1]), "last": {1, "b"}, "big": 10**400})
    assert [panel["label"] for panel in panels] == ["first", "strange", "last", "big"]
    assert panels[1]["text"] == "It cannot be shown: RuntimeError: of no length"
    assert panels[2]["items"] == ["1", "b"]
    assert "The field strange cannot be shown" in caplog.text


def test_who_watches_or_plays_is_told_of_any_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise IndexError("nobody thought of this")

    said = {"kind": "trouble", "text": "IndexError: nobody thought of this"}

    def is_told(tab: Tab) -> bool:
        return eventually(lambda: said in news(tab))

    with site(create_app(OddEnv)) as made:
        trainer, viewer = begun(made), begun(made)
        monkeypatch.setattr(watching_module, "panels_of", fail)
        viewer.watch(trainer.session_name, 0)
        trainer.step({"action": 0})
        assert is_told(viewer)
        monkeypatch.setattr(tabs_module, "panels_of", fail)
        player = Player(trainer, {"field": "action", "nothing": 0}, 60)
        assert is_told(trainer)
        player.stop()
