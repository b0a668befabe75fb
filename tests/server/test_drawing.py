"""Worlds of cells, drawn."""

from __future__ import annotations

import numpy as np

from openenv_gym.server import draw_cells


CELLS = np.array([["#", "."], [".", "A"]])
COLOURS = {"#": (0, 0, 0), ".": (255, 255, 255), "A": (0, 0, 255)}


def test_text():
    assert draw_cells(CELLS, COLOURS, "ansi") == "#.\n.A"


def test_a_picture():
    picture = draw_cells(CELLS, COLOURS, "rgb_array", pixels=2)
    assert (picture.shape, picture.dtype) == ((4, 4, 3), np.uint8)
    assert picture[1, 1].tolist() == [0, 0, 0]
    assert picture[3, 2].tolist() == [0, 0, 255]


def test_no_mode_no_picture():
    assert draw_cells(CELLS, COLOURS, None) is None
