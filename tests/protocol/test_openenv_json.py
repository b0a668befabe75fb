import json
import math

import pytest

from openenv_gym import errors
from openenv_gym.protocol.openenv_json import (
    RequestType,
    encode_error,
    encode_reply,
    encode_request,
    openenv_code,
    read_reply,
    read_request,
    was_truncated,
)


@pytest.mark.parametrize(
    ("kind", "data", "written"),
    [
        (RequestType.RESET, None, {"type": "reset"}),
        (RequestType.RESET, {"seed": 3}, {"type": "reset", "data": {"seed": 3}}),
        (RequestType.STEP, {"move": "e2e4"}, {"type": "step", "data": {"move": "e2e4"}}),
        (RequestType.STATE, None, {"type": "state"}),
        (RequestType.CLOSE, None, {"type": "close"}),
    ],
)
def test_requests_are_read_as_they_were_written(kind, data, written):
    text = encode_request(kind, data)
    assert json.loads(text) == written
    assert read_request(text) == (kind, data or {})


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        ("{", "INVALID_JSON", "Expected JSON"),
        (b"\xff\xfe", "INVALID_JSON", "Expected UTF-8"),
        ("[" * 100_000, "INVALID_JSON", "too deep"),
        ("[1, 2]", "VALIDATION_ERROR", "Expected a JSON object with 'type', got list"),
        ("{}", "UNKNOWN_TYPE", "Unknown message type: None"),
        ('{"type": ["reset"]}', "UNKNOWN_TYPE", r"Unknown message type: \['reset'\]"),
        ('{"type": "jump"}', "UNKNOWN_TYPE", "expected one of reset, step, state, mcp, close"),
        ('{"type": "step"}', "VALIDATION_ERROR", "step: 'data' is missing"),
        ('{"type": "step", "data": 3}', "VALIDATION_ERROR", "'data' is 3, expected an object"),
        ('{"type": "state", "id": 3}', "VALIDATION_ERROR", "unknown key 'id'"),
    ],
)
def test_a_malformed_request_is_refused_by_name(text, code, says):
    with pytest.raises(errors.ProtocolError, match=says) as caught:
        read_request(text)
    assert openenv_code(caught.value).value == code
    sent = json.loads(encode_error(caught.value))
    assert sent["type"] == "error" and sent["data"]["code"] == code


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_that_json_lacks_is_refused_before_it_is_sent(number):
    with pytest.raises(errors.EncodeError, match="NaN and infinity have no form in JSON"):
        encode_request(RequestType.STEP, {"speed": number})


def test_a_reply_holds_its_data():
    text = encode_reply(RequestType.STEP, '{"observation":{},"reward":1,"done":false}')
    assert read_reply(text, "observation") == {"observation": {}, "reward": 1, "done": False}


@pytest.mark.parametrize(
    ("data", "error", "says"),
    [
        ({"code": "EXECUTION_ERROR", "message": "boom"}, errors.EnvironmentFailedError, "boom"),
        ({"code": "FACTORY_ERROR", "message": "no"}, errors.EnvironmentFailedError, "cannot make"),
        ({"code": "SESSION_ERROR", "message": "gone"}, errors.SessionError, "gone"),
        ({"code": "UNKNOWN_TYPE", "message": "what"}, errors.ProtocolError, "what"),
        ({"code": "NEW", "message": "\x1b[2Jwhat"}, errors.ProtocolError, "what"),
        ({}, errors.ProtocolError, "The server answered None"),
        (
            {
                "code": "VALIDATION_ERROR",
                "message": "bad",
                "errors": [{"loc": ["column"], "msg": "Field required"}],
            },
            errors.InvalidActionError,
            "column: Field required.",
        ),
    ],
)
def test_an_error_of_a_server_is_raised_as_one_of_ours(data, error, says):
    with pytest.raises(error, match=says) as caught:
        read_reply(json.dumps({"type": "error", "data": data}), "observation")
    assert "\x1b" not in str(caught.value)


def test_a_full_server_says_how_full():
    full = errors.CapacityError("full", data={"sessions": 2, "capacity": 2})
    with pytest.raises(errors.CapacityError) as caught:
        read_reply(encode_error(full), "observation")
    assert caught.value.data["sessions"] == caught.value.data["capacity"] == 2


@pytest.mark.parametrize("text", ["[]", '"x"', '{"type":"observation"}', '{"data":{}}', "nope"])
def test_what_is_no_reply_is_a_protocol_error(text):
    with pytest.raises(errors.ProtocolError):
        read_reply(text, "observation")


def test_what_could_not_be_made_is_named():
    assert json.loads(encode_error(RuntimeError(""), unmade="Walk")) == {
        "type": "error",
        "data": {"message": "RuntimeError", "code": "FACTORY_ERROR", "factory_name": "Walk"},
    }


@pytest.mark.parametrize(
    ("metadata", "truncated"),
    [
        (None, False),
        ({}, False),
        ({"truncated": True}, True),
        ({"TimeLimit.truncated": True}, True),
        ({"truncated": False}, False),
        ({"truncated": "yes"}, False),
    ],
)
def test_truncation_is_read_from_the_metadata(metadata, truncated):
    assert was_truncated(metadata) is truncated
