"""Pictures of worlds that are made of cells."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray


__all__ = ["draw_cells"]

Colour = tuple[int, int, int]


def draw_cells(
    cells: NDArray[np.str_], colours: Mapping[str, Colour], mode: str | None, *, pixels: int = 16
) -> str | NDArray[np.uint8] | None:
    """Draw a world of cells as a render mode has it.

    Args:
        cells: One character for each cell. Shape (rows, columns).
        colours: Red, green and blue of each character, from 0 to 255.
        mode: ``"ansi"``, ``"rgb_array"`` or None.
        pixels: Length of a cell's side in a picture.

    Returns:
        For ``"ansi"`` the characters, a line for each row. For ``"rgb_array"`` a picture of shape
        (rows * pixels, columns * pixels, 3), uint8. None for no mode.
    """
    if mode == "ansi":
        return "\n".join("".join(row) for row in cells)
    if mode == "rgb_array":
        picture = np.array([[colours[mark] for mark in row] for row in cells], np.uint8)
        return picture.repeat(pixels, 0).repeat(pixels, 1)
    return None
