"""What an environment shows, as a person wants to see it: pictures, boards, text, numbers.

A view is a list of panels, each plain JSON for the page's own code (``static/live.js``).
"""

from __future__ import annotations

import base64
import io
import json
import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from openenv_gym.errors import printable


__all__ = ["fields_of", "has_picture", "panels_of", "plain", "reward_of", "short"]

Panel = dict[str, Any]

MAX_NUMBERS = 64
"""Numbers of one field that are plotted; of more there is a picture, or the raw JSON."""

MAX_GRID = 40
"""Rows and columns of a field that is drawn as a board."""

_MIN_PICTURE = 24  # pixels
_MAX_TEXT = 20_000
_MAX_ITEMS = 64
_MAX_RAW = 2048  # elements of an array in the raw JSON
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")  # of a terminal, as Gymnasium's toy text has them
_FEN = re.compile(r"^([pnbrqkPNBRQK1-8]+/){7}[pnbrqkPNBRQK1-8]+ [wb] ")
_JPEG_FROM = 320 * 320  # pixels

_log = logging.getLogger(__name__)


def fields_of(observation: Any) -> dict[str, Any]:
    """Return an observation by field, as a typed one has them."""
    if isinstance(observation, Mapping):
        return {str(name): value for name, value in observation.items()}
    return {"observation": observation}


def has_picture(observation: Any) -> bool:
    """Tell whether an observation has a field that is a picture."""
    return any(_as_picture(value) is not None for value in fields_of(observation).values())


def panels_of(observation: Any, frame: Any = None) -> list[Panel]:
    """Return what is shown of an observation.

    Args:
        observation: The observation, by field or as a sample of its space.
        frame: What the environment draws: a picture (uint8, shape (height, width, 3)), text, or
            None.
    """
    fields = fields_of(observation)
    panels: list[Panel] = []
    if isinstance(frame, str):
        panels.append({"type": "text", "label": "Drawn", "text": _text(frame)})
    elif (drawn := _as_picture(frame)) is not None:
        panels.append(_picture("Drawn", drawn))
    numbers: dict[str, float] = {}
    flags: list[str] = []
    for name, value in fields.items():
        number = _as_number(value)
        if isinstance(value, (bool, np.bool_)):
            flags.append(f"{name}: {'yes' if value else 'no'}")
        elif number is not None:
            numbers[name] = number
        elif (panel := _panel_or_why(name, value, drawn=bool(panels))) is not None:
            panels.append(panel)
    if numbers:
        panels.append(_numbers("Numbers", list(numbers), list(numbers.values())))
    if flags:
        panels.append({"type": "list", "label": "Flags", "items": flags})
    return panels


def plain(value: Any, most: int = _MAX_RAW) -> Any:
    """Return what JSON can carry of a value; of a large array its form and its beginning."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if np.isfinite(value) else str(value)
    if isinstance(value, np.ndarray):
        if value.size > most:
            head = plain(value.reshape(-1)[:16].tolist())
            return {"shape": list(value.shape), "dtype": str(value.dtype), "begins": head}
        return plain(value.tolist())
    if isinstance(value, np.floating):  # a longdouble's item() is a longdouble
        return plain(float(value))
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(each) for each in value]
    return repr(value)[:_MAX_TEXT]


def reward_of(value: Any) -> float | None:
    """Return a reward as a number; None where it is none, or several."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def short(value: Any, most: int = 120) -> str:
    """Return a value in one line: an action in the history."""
    value = plain(value, most=32)
    if isinstance(value, Mapping) and len(value) == 1:
        (value,) = value.values()
    text = value if isinstance(value, str) else json.dumps(value)
    text = " ".join(printable(text).split())
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _panel_or_why(name: str, value: Any, *, drawn: bool) -> Panel | None:
    """Return the panel of a field; where there is none to make, one that says why.

    One field that nobody has thought of does not take the others from the page.
    """
    try:
        return _panel(name, value, drawn=drawn)
    except Exception as error:
        _log.exception("The field %s cannot be shown", name)
        text = f"It cannot be shown: {type(error).__name__}: {error}"
        return {"type": "text", "label": name, "text": _text(text)}


def _panel(name: str, value: Any, *, drawn: bool) -> Panel | None:
    picture = _as_picture(value)
    if picture is not None:
        return _picture(name, picture)
    if value is None:
        return None
    if isinstance(value, str):
        if _FEN.match(value) and not drawn:
            return {"type": "chess", "label": name, "fen": value}
        return {"type": "text", "label": name, "text": _text(value)}
    array = value if isinstance(value, np.ndarray) else None
    if array is not None and array.size == 0:
        text = f"{array.dtype} {_size(array)}, with nothing in it"
        return {"type": "text", "label": name, "text": text}
    if array is not None and array.dtype.kind in "biuf":
        if array.ndim == 1 and array.size <= MAX_NUMBERS:
            return _numbers(name, [f"{name}[{i}]" for i in range(array.size)], array.tolist())
        if array.ndim == 2 and max(array.shape) <= MAX_GRID and array.dtype.kind in "biu":
            return {"type": "grid", "label": name, "rows": array.tolist(), "folded": drawn}
    if isinstance(value, (list, tuple, set, frozenset)) and _is_short_list(value):
        return {"type": "list", "label": name, "items": _items(value)}
    raw = plain(value)
    if array is not None and isinstance(raw, dict):
        text = f"{array.dtype} {_size(array)}"
        if array.dtype.kind in "biuf":
            text += f", from {float(array.min()):g} to {float(array.max()):g}"
        return {"type": "text", "label": name, "text": text}
    return {"type": "json", "label": name, "value": raw}


def _size(array: Any) -> str:
    return "x".join(map(str, array.shape))


def _items(value: Any) -> list[str]:
    """Return what stands in a short list; of a set in order, where it has one."""
    items = list(value)
    if isinstance(value, (set, frozenset)):
        # Numbers by their size; with text among them there is no order but that of words.
        words = any(isinstance(each, str) for each in items)
        items.sort(key=str if words else None)
    return [printable(str(each)) for each in items]


def _text(value: str) -> str:
    return printable(_COLOURS.sub("", value))[:_MAX_TEXT]


def _is_short_list(value: Any) -> bool:
    return 0 < len(value) <= 4 * _MAX_ITEMS and all(
        isinstance(each, (str, int, float, np.generic)) for each in value
    )


def _as_number(value: Any) -> float | None:
    if isinstance(value, np.ndarray):
        if value.ndim or value.dtype.kind not in "biuf":
            return None
        return float(value)
    if isinstance(value, (int, float, np.integer, np.floating)):
        try:
            return float(value)
        except OverflowError:  # a whole number that no plot has room for
            return None
    return None


def _numbers(label: str, names: Sequence[str], values: Sequence[Any]) -> Panel:
    finite = [float(value) if np.isfinite(value) else None for value in values]
    return {"type": "numbers", "label": label, "names": list(names), "values": finite}


# -- pictures -----------------------------------------------------------------------------------


def _as_picture(value: Any) -> Any:
    """Return a picture as uint8 of shape (height, width, 3) or (height, width); None: it is none.

    A row of frames, as frame stacking makes it, becomes one picture with one beside the other.
    """
    if not isinstance(value, np.ndarray) or value.dtype != np.uint8:
        return None
    if value.size == 0:  # a stack of frames that has none yet
        return None
    if value.ndim == 4 and value.shape[0] <= 8 and _is_picture(value[0]):
        return np.concatenate(list(value), axis=1)
    if value.ndim == 3 and value.shape[2] == 1 and _is_picture(value[:, :, 0]):
        return value[:, :, 0]
    if value.ndim == 3 and value.shape[0] <= 8 and _is_picture(value[0]):
        return np.concatenate(list(value), axis=1)
    return value if _is_picture(value) else None


def _is_picture(value: Any) -> bool:
    if value.ndim == 3 and value.shape[2] != 3:
        return False
    return value.ndim in (2, 3) and min(value.shape[:2]) >= _MIN_PICTURE


def _picture(label: str, pixels: Any) -> Panel:
    from PIL import Image  # which comes with Gradio

    height, width = pixels.shape[:2]
    image, file = Image.fromarray(np.ascontiguousarray(pixels)), io.BytesIO()
    if height * width >= _JPEG_FROM:
        image.save(file, "JPEG", quality=85)
        kind = "jpeg"
    else:
        image.save(file, "PNG", compress_level=1)
        kind = "png"
    data = base64.b64encode(file.getvalue()).decode()
    return {
        "type": "picture",
        "label": label,
        "width": width,
        "height": height,
        "url": f"data:image/{kind};base64,{data}",
    }
