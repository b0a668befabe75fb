"""A picture of the portfolio's value beside that of buy-and-hold."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont


__all__ = ["HEIGHT", "WIDTH", "draw_chart"]

WIDTH, HEIGHT = 640, 360

_LEFT, _RIGHT, _TOP, _BOTTOM = 84, 624, 40, 328
_WHITE, _BLACK, _GREY = (255, 255, 255), (40, 40, 40), (225, 225, 225)
_OWN, _HELD = (31, 119, 180), (255, 127, 14)
_LINES = 4
_FONT_SIZE = 12


def draw_chart(
    values: Sequence[float], held: Sequence[float], dates: Sequence[str], steps: int
) -> NDArray[np.uint8]:
    """Draw how the value of a portfolio went, against buy-and-hold.

    Args:
        values: Value on each day so far.
        held: Value of buy-and-hold on the same days.
        dates: The first and the present day, as they are shown.
        steps: Steps of the whole episode, which is what the axis has room for.

    Returns:
        Shape (360, 640, 3), uint8.
    """
    image = Image.new("RGB", (WIDTH, HEIGHT), _WHITE)
    draw = ImageDraw.Draw(image)
    font = ImageFont.load_default(_FONT_SIZE)
    low = min(min(values), min(held))
    high = max(max(values), max(held))
    margin = 0.05 * (high - low) or 0.05 * high or 1.0
    low, high = low - margin, high + margin
    digits = 0 if high >= 1000.0 else 2

    def place(day: int, value: float) -> tuple[float, float]:
        across = _LEFT + (_RIGHT - _LEFT) * day / max(steps, 1)
        return across, _BOTTOM - (_BOTTOM - _TOP) * (value - low) / (high - low)

    for number in range(_LINES + 1):
        value = low + (high - low) * number / _LINES
        _, y = place(0, value)
        draw.line([(_LEFT, y), (_RIGHT, y)], fill=_GREY)
        draw.text((_LEFT - 6, y), f"{value:,.{digits}f}", fill=_BLACK, font=font, anchor="rm")
    for line, colour in ((held, _HELD), (values, _OWN)):
        points = [place(day, value) for day, value in enumerate(line)]
        # A single day is a point, which a line of two equal ends draws.
        draw.line(points * 2 if len(points) == 1 else points, fill=colour, width=2)
    middle = (_LEFT + _RIGHT) // 2
    for x, text, value, colour in (
        (_LEFT, "portfolio", values[-1], _OWN),
        (middle, "buy and hold", held[-1], _HELD),
    ):
        draw.rectangle([x, 16, x + 10, 26], fill=colour)
        draw.text((x + 16, 21), f"{text}: {value:,.2f}", fill=_BLACK, font=font, anchor="lm")
    draw.text((_LEFT, _BOTTOM + 16), dates[0], fill=_BLACK, font=font, anchor="lm")
    draw.text((_RIGHT, _BOTTOM + 16), dates[-1], fill=_BLACK, font=font, anchor="rm")
    pixels: NDArray[np.uint8] = np.array(image)
    return pixels
