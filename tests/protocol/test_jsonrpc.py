"""JSON-RPC messages: what is read, what is refused and with which code."""

from __future__ import annotations

import pytest

from openenv_gym.errors import CapacityError, ProtocolError, ServerDrainingError
from openenv_gym.protocol.jsonrpc import RpcCode, read_rpc, rpc_error, rpc_failure, rpc_result


def message(**keys):
    return {"jsonrpc": "2.0", "id": 1, "method": "ping", **keys}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (message(), ("ping", {}, 1, True)),
        (message(id="a", params={"x": 1}), ("ping", {"x": 1}, "a", True)),
        (message(params=None), ("ping", {}, 1, True)),
        ({"jsonrpc": "2.0", "method": "notifications/initialized"},
         ("notifications/initialized", {}, None, False)),
        # OpenEnv answers requests without an id; its clients may count on that.
        ({"jsonrpc": "2.0", "method": "tools/list"}, ("tools/list", {}, None, True)),
        ({"jsonrpc": "2.0", "id": 3, "result": {}}, ("", {}, 3, False)),
    ],
)  # fmt: skip
def test_messages(given, expected):
    request = read_rpc(given)
    assert tuple(request) == expected
    if request.method:
        assert read_rpc(request.to_wire()) == request


@pytest.mark.parametrize(
    ("given", "field", "id_"),
    [
        ({}, "jsonrpc", None),
        (message(jsonrpc="1.0"), "jsonrpc", 1),
        (message(method=""), "method", 1),
        (message(method=7), "method", 1),
        ({"jsonrpc": "2.0", "id": 1}, "method", 1),
        (message(params=[1]), "params", 1),
        (message(id=True), "id", None),
        (message(id=1.5), "id", None),
        (message(id=[1]), "id", None),
        ([message()], None, None),
        ("ping", None, None),
        (None, None, None),
    ],
)
def test_what_is_no_request_is_refused(given, field, id_):
    with pytest.raises(ProtocolError, match="Invalid request") as caught:
        read_rpc(given)
    assert caught.value.field == field
    failure = rpc_failure(None, caught.value)
    assert failure["error"]["code"] == RpcCode.INVALID_REQUEST == -32600
    assert failure["id"] == id_


def test_answers():
    assert rpc_result("a", {}) == {"jsonrpc": "2.0", "id": "a", "result": {}}
    error = rpc_error(RpcCode.INVALID_PARAMS, "no", data={"x": 1})
    assert rpc_failure(4, error) == {
        "jsonrpc": "2.0",
        "id": 4,
        "error": {"code": -32602, "message": "no", "data": {"x": 1}},
    }


@pytest.mark.parametrize(
    ("error", "code", "data"),
    [
        (
            CapacityError("full", data={"sessions": 2, "capacity": 2}),
            -32000,
            {"active_sessions": 2, "max_sessions": 2},
        ),
        (ServerDrainingError("stops"), -32000, None),
        (ProtocolError("odd"), -32603, None),
        (ZeroDivisionError("1/0"), -32603, None),
    ],
)
def test_other_errors(error, code, data):
    failure = rpc_failure(1, error)["error"]
    assert (failure["code"], failure["data"]) == (code, data)
    assert str(error) in failure["message"]
