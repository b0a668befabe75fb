"""Observations are shown as a person wants to see them."""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np
import pytest
from PIL import Image

from openenv_gym.web.views import has_picture, panels_of, plain, short


def types(observation: Any, frame: Any = None) -> dict[str, str]:
    return {panel["label"]: panel["type"] for panel in panels_of(observation, frame)}


def test_each_kind_of_value_is_drawn_as_what_it_is() -> None:
    fen = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"
    observation = {
        "screen": np.zeros((210, 160, 3), np.uint8),
        "board": np.zeros((6, 7), np.int64),
        "state": np.zeros(4, np.float32),
        "position": fen,
        "text": "Hello\nWorld",
        "moves": ["a", "b"],
        "score": 1.5,
        "alive": True,
        "nothing": None,
        "deep": {"a": {"b": [1]}},
        "large": np.zeros((50, 50, 8), np.float32),
    }
    assert types(observation) == {
        "screen": "picture",
        "board": "grid",
        "state": "numbers",
        "position": "text",  # a picture shows it better
        "text": "text",
        "moves": "list",
        "deep": "json",
        "large": "text",
        "Numbers": "numbers",
        "Flags": "list",
    }
    assert types({"position": fen}) == {"position": "chess"}


@pytest.mark.parametrize(
    ("pixels", "size"),
    [
        (np.zeros((210, 160, 3), np.uint8), (160, 210)),
        (np.zeros((84, 84), np.uint8), (84, 84)),
        (np.zeros((84, 84, 1), np.uint8), (84, 84)),
        (np.zeros((4, 84, 84), np.uint8), (336, 84)),
        (np.zeros((400, 600, 3), np.uint8), (600, 400)),
    ],
)
def test_a_picture_is_a_picture_of_its_size(pixels: Any, size: tuple[int, int]) -> None:
    assert has_picture(pixels)
    (panel,) = panels_of(pixels)
    image = Image.open(io.BytesIO(base64.b64decode(panel["url"].partition(",")[2])))
    assert image.size == size == (panel["width"], panel["height"])


def test_pixels_are_those_of_the_environment() -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (100, 80, 3), np.uint8)
    (panel,) = panels_of({"screen": pixels})
    image = Image.open(io.BytesIO(base64.b64decode(panel["url"].partition(",")[2])))
    assert (np.asarray(image) == pixels).all()


def test_what_an_environment_draws_comes_first_and_does_nothing_to_anybody() -> None:
    panels = panels_of({"a": "x"}, "\x1b[43mT\x1b[0maxi\x07")
    assert panels[0] == {"type": "text", "label": "Drawn", "text": "Taxi\\x07"}


def test_raw_json_says_what_large_arrays_are() -> None:
    raw = plain({"screen": np.zeros((210, 160, 3), np.uint8), "x": np.float32(0.5), "y": np.inf})
    assert raw["screen"] == {"shape": [210, 160, 3], "dtype": "uint8", "begins": [0] * 16}
    assert raw["x"] == 0.5 and raw["y"] == "inf"


def test_an_action_is_one_short_line() -> None:
    assert short({"move": "e2e4"}) == "e2e4"
    assert short({"a": 1, "b": [1, 2]}) == '{"a": 1, "b": [1, 2]}'
    assert len(short({"code": "x\n" * 500})) == 120
