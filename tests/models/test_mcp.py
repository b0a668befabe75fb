"""Models of tools: plain values in Python, OpenEnv's dictionaries in JSON."""

from __future__ import annotations

import base64
import enum
import io
import json
from dataclasses import dataclass

import numpy as np
import pytest
from PIL import Image
from pydantic import BaseModel, ValidationError

from openenv_gym.errors import EncodeError
from openenv_gym.models import (
    CallToolAction,
    CallToolObservation,
    ListToolsAction,
    ToolError,
    ToolErrorType,
)
from openenv_gym.models.mcp import is_tool_action, openenv_fields
from openenv_gym.models.tool_results import content_of, plain_of


class Place(BaseModel):
    x: int
    y: float = 1.0


@dataclass
class Point:
    x: int


class Colour(enum.Enum):
    RED = "red"


def text(value: str) -> dict:
    return {"type": "text", "text": value, "annotations": None, "meta": None}


# What a server of OpenEnv 0.10 sends for the same functions, written down from its wire.
OPENENV = [
    pytest.param(
        "Hello",
        {
            "content": [text("Hello")],
            "structured_content": {"result": "Hello"},
            "meta": {"fastmcp": {"wrap_result": True}},
            "data": "Hello",
            "is_error": False,
        },
        id="text",
    ),
    pytest.param(
        3,
        {
            "content": [text("3")],
            "structured_content": {"result": 3},
            "meta": {"fastmcp": {"wrap_result": True}},
            "data": 3,
            "is_error": False,
        },
        id="number",
    ),
    pytest.param(
        {"message": "Hello", "length": 5},
        {
            "content": [text('{"message":"Hello","length":5}')],
            "structured_content": {"message": "Hello", "length": 5},
            "meta": None,
            "data": {"message": "Hello", "length": 5},
            "is_error": False,
        },
        id="map",
    ),
    pytest.param(
        None,
        {
            "content": [],
            "structured_content": None,
            "meta": None,
            "data": None,
            "is_error": False,
        },
        id="nothing",
    ),
]


@pytest.mark.parametrize(("value", "wire"), OPENENV)
def test_a_result_is_plain_in_python_and_openenvs_dictionary_in_json(value, wire):
    observation = CallToolObservation(tool_name="t", result=value)
    assert observation.result == value
    assert observation.model_dump()["result"] == value
    assert observation.model_dump(mode="json")["result"] == wire
    assert json.loads(observation.model_dump_json())["result"] == wire
    assert CallToolObservation(tool_name="t", result=wire).result == value
    fields = {"tool_name": "t", "result": value, "error": None}
    assert openenv_fields(fields) == {**fields, "result": wire}


def test_a_foreign_result_without_a_return_type_is_its_text():
    wire = {
        "content": [text('[1,"a"]')],
        "structured_content": None,
        "meta": None,
        "data": None,
        "is_error": False,
    }
    assert CallToolObservation(tool_name="t", result=wire).result == '[1,"a"]'


def test_a_failed_call_has_no_result():
    error = ToolError(error_type="timeout", message="too slow")
    observation = CallToolObservation(tool_name="t", error=error)
    assert error.error_type is ToolErrorType.TIMEOUT
    dumped = observation.model_dump(mode="json")
    assert dumped["result"] is None
    assert dumped["error"] == {"error_type": "timeout", "message": "too slow"}
    assert CallToolObservation.model_validate(dumped) == observation


def test_images_travel_as_png():
    picture = np.arange(4 * 5 * 3, dtype=np.uint8).reshape(4, 5, 3)
    for array in (
        picture,
        picture[..., 0],
        picture[..., :1],
        np.dstack([picture, picture[..., 0]]),
    ):
        (block,), plain = content_of(array)
        assert (block["type"], block["mimeType"], plain) == ("image", "image/png", None)
        back = np.asarray(Image.open(io.BytesIO(base64.b64decode(block["data"]))))
        assert np.array_equal(back, np.squeeze(array))
    read = CallToolObservation.model_validate(
        CallToolObservation(tool_name="t", result=picture).model_dump(mode="json")
    )
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(read.result))), picture)


def test_bytes_are_images_or_resources_and_come_back():
    jpeg = b"\xff\xd8\xff\xe0 and so on"
    assert content_of(jpeg)[0][0]["mimeType"] == "image/jpeg"
    assert content_of(b"\x00\x01")[0][0]["resource"]["mimeType"] == "application/octet-stream"
    for value in (jpeg, b"\x00\x01", ["a picture", jpeg]):
        observation = CallToolObservation(tool_name="t", result=value)
        back = CallToolObservation.model_validate(observation.model_dump(mode="json"))
        assert back.result == value


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Place(x=1), {"x": 1, "y": 1.0}),
        (Point(2), {"x": 2}),
        (Colour.RED, "red"),
        ((1, {2}), [1, [2]]),
        (np.float32(0.5), 0.5),
        ({"a": np.array([[1.5, np.nan]])}, {"a": [[1.5, None]]}),
        (float("inf"), None),
        ("ä", "ä"),
    ],
)
def test_plain_values(value, plain):
    assert plain_of(value) == plain


@pytest.mark.parametrize("value", [object(), {"a": [object()]}, lambda: 0])
def test_what_json_has_no_form_for_is_named(value):
    with pytest.raises(EncodeError, match="no form") as caught:
        CallToolObservation(tool_name="t", result=value) and content_of(value)
    assert caught.value.field == "result"


def test_actions():
    assert CallToolAction(tool_name="t").model_dump() == {
        "metadata": {},
        "type": "call_tool",
        "tool_name": "t",
        "arguments": {},
    }
    with pytest.raises(ValidationError, match="call_tool"):
        CallToolAction(type="list_tools", tool_name="t")
    assert is_tool_action(ListToolsAction().model_dump())
    assert is_tool_action({"tool_name": "t", "arguments": {}})
    assert not is_tool_action({"message": "hello"})
    assert not is_tool_action({"type": "move", "tool_name": 3})
