"""What a tool returned, as plain value, as MCP's content, and as OpenEnv's JSON has it.

In Python the result of a tool is what its function returned. MCP has a list of *content blocks*
(text, images, binary resources) with *structured content* beside it; OpenEnv's JSON wire has the
dictionary that FastMCP's client makes of these two. Images travel as PNG.
"""

from __future__ import annotations

import base64
import binascii
import json
import struct
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic_core import PydanticSerializationError, to_jsonable_python

from openenv_gym.errors import EncodeError


__all__ = [
    "content_of",
    "is_openenv_result",
    "plain_of",
    "result_from_openenv",
    "result_to_openenv",
    "settled",
]

_OPENENV_KEYS = frozenset({"content", "structured_content", "meta", "data", "is_error"})
_WRAPPED = {"fastmcp": {"wrap_result": True}}  # how FastMCP notes that `result` is its own key
_IMAGES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
)
_BINARY = "application/octet-stream"


def plain_of(value: Any) -> Any:
    """Return a value in JSON's terms: models and dataclasses as maps, arrays as nested lists.

    NaN and infinities, which JSON does not know, become None; bytes become base64.

    Raises:
        EncodeError: It holds something that has no such form.
    """
    try:
        return to_jsonable_python(
            value, inf_nan_mode="null", bytes_mode="base64", fallback=_from_numpy
        )
    except (PydanticSerializationError, ValueError, TypeError, RecursionError) as error:
        raise EncodeError(
            f"A tool returned a {type(value).__name__}, which JSON has no form for: {error}.",
            field="result",
            hint="Return numbers, text, lists, maps, Pydantic models, arrays or bytes.",
        ) from error


def settled(value: Any) -> Any:
    """Return a value such that every wire carries it: arrays and bytes stay, the rest is plain.

    Raises:
        EncodeError: It holds something that has no form in JSON.
    """
    if isinstance(value, list | tuple):
        return [settled(item) for item in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return value
    return plain_of(value)


def _from_numpy(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} has no form in JSON")


# -- to the wire --------------------------------------------------------------------------------


def content_of(value: Any) -> tuple[list[dict[str, Any]], Any]:
    """Return MCP's content blocks of a result, and the same as JSON.

    Args:
        value: What the tool returned. Images are arrays of dtype uint8 and shape
            ``(height, width)`` or ``(height, width, 1 | 3 | 4)``, and bytes that begin as a PNG,
            JPEG, GIF or WebP file does; in a list or tuple each may stand for itself.

    Returns:
        The blocks, and the value in JSON's terms; None where the blocks alone say it (images and
        other bytes, or nothing).

    Raises:
        EncodeError: The value has no such form.
    """
    if value is None:
        return [], None
    if (block := _binary_block(value)) is not None:
        return [block], None
    if isinstance(value, list | tuple):
        blocks = [_binary_block(item) for item in value]
        if any(block is not None for block in blocks):
            return [
                _text_block(plain_of(item)) if block is None else block
                for item, block in zip(value, blocks, strict=True)
            ], None
    plain = plain_of(value)
    return [_text_block(plain)], plain


def result_to_openenv(value: Any) -> dict[str, Any]:
    """Return the dictionary that OpenEnv's JSON has for a tool's result.

    Raises:
        EncodeError: The value has no such form.
    """
    blocks, plain = content_of(value)
    wraps = plain is not None and not isinstance(plain, dict)
    return {
        "content": [{**block, "annotations": None, "meta": None} for block in blocks],
        "structured_content": {"result": plain} if wraps else plain,
        "meta": _WRAPPED if wraps else None,
        "data": plain,
        "is_error": False,
    }


def _text_block(plain: Any) -> dict[str, Any]:
    if not isinstance(plain, str):
        plain = json.dumps(plain, separators=(",", ":"), ensure_ascii=False)
    return {"type": "text", "text": plain}


def _binary_block(value: Any) -> dict[str, Any] | None:
    """Return the block of an image or of other bytes; None for everything else."""
    if isinstance(value, np.ndarray) and is_picture(value):
        return _image_block(picture_to_png(value), "image/png")
    if isinstance(value, bytes | bytearray | memoryview):
        data = bytes(value)
        kind = _image_type(data)
        if kind is not None:
            return _image_block(data, kind)
        resource = {
            "uri": "tool://result",
            "mimeType": _BINARY,
            "blob": base64.b64encode(data).decode(),
        }
        return {"type": "resource", "resource": resource}
    return None


def _image_block(data: bytes, kind: str) -> dict[str, Any]:
    return {"type": "image", "data": base64.b64encode(data).decode(), "mimeType": kind}


def _image_type(data: bytes) -> str | None:
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _IMAGES if data.startswith(magic)), None)


def is_picture(array: NDArray[Any]) -> bool:
    """Tell whether an array is a picture of 8 bits a channel: grey, RGB or RGBA."""
    return (
        array.dtype == np.uint8
        and array.size > 0
        and (array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (1, 3, 4)))
    )


def picture_to_png(picture: NDArray[np.uint8]) -> bytes:
    """Write a PNG file (ISO/IEC 15948) of 8 bits a channel, without filters."""
    height, width = picture.shape[:2]
    channels = picture.shape[2] if picture.ndim == 3 else 1
    rows = np.zeros((height, 1 + width * channels), np.uint8)  # the first byte: filter "none"
    rows[:, 1:] = picture.reshape(height, -1)
    colour = {1: 0, 3: 2, 4: 6}[channels]  # grey, RGB, RGBA
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows.tobytes(), 1)),
        (b"IEND", b""),
    )
    return _IMAGES[0][0] + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )


# -- from the wire ------------------------------------------------------------------------------


def is_openenv_result(value: Any) -> bool:
    """Tell whether a value is the dictionary that OpenEnv's JSON has for a tool's result."""
    return isinstance(value, Mapping) and value.keys() == _OPENENV_KEYS


def result_from_openenv(result: Mapping[str, Any]) -> Any:
    """Return the plain value of a result as OpenEnv's JSON has it.

    Args:
        result: What `is_openenv_result` is true for. FastMCP sets `data` where the tool has a
            return type; then that is the value. Otherwise it is the structured content, or what
            the blocks hold: text, or bytes for an image or resource; a list where there are
            several.
    """
    if (data := result["data"]) is not None:
        return data
    structured, meta = result["structured_content"], result["meta"]
    if structured is not None:
        wrapped = isinstance(structured, Mapping) and meta == _WRAPPED
        return structured.get("result") if wrapped else structured
    content = result["content"]
    values = [_value_of(block) for block in content] if isinstance(content, list) else [content]
    return values[0] if len(values) == 1 else values or None


def _value_of(block: Any) -> Any:
    match block:
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": "image", "data": str(data)} | {
            "type": "resource",
            "resource": {"blob": str(data)},
        }:
            try:
                return base64.b64decode(data, validate=True)
            except (binascii.Error, ValueError):
                return block
    return block
