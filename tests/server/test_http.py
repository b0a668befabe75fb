import pytest

from openenv_gym.server.http import Call, Router, Upgrade
from openenv_gym.server.http_messages import HttpResponse, Route


UPGRADE = (
    "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
)


def nothing(request):
    return HttpResponse.of_json({})


@pytest.fixture
def router():
    routes = [
        Route("GET", "/health", nothing, open=True),
        Route("POST", "/step", nothing),
        Route("POST", "/{env}/task", nothing),
    ]
    return Router(routes, token="secret", max_body_bytes=100)


def ask(router, line, *headers, authorized=True):
    given = ["Authorization: Bearer secret"] if authorized else []
    lines = [f"{line} HTTP/1.1", "Host: here", *given, *headers]
    return router.answer("\r\n".join([*lines, "", ""]).encode())


def test_a_route_is_found_by_method_and_path(router):
    call = ask(router, "POST /step?a=1&b=%20x", "Content-Length: 7")
    assert isinstance(call, Call) and call.body_bytes == 7
    assert call.request.path == "/step" and call.request.query == {"a": "1", "b": " x"}
    call = ask(router, "POST /my%20env/task")
    assert isinstance(call, Call) and call.request.parameters == {"env": "my env"}


@pytest.mark.parametrize(
    ("line", "headers", "status", "says"),
    [
        ("POST /stop", [], 404, "there are /health, /step, /ws, /{env}/task"),
        ("PUT /step", [], 405, "/step takes POST"),
        ("POST /step", ["Content-Length: 101"], 413, "at most 100"),
        ("POST /step", ["Content-Length: -1"], 400, "expected a number"),
        ("POST /step", ["Content-Length: 1_0"], 400, "expected a number"),
        ("POST /step", ["Transfer-Encoding: chunked"], 411, "Content-Length"),
        ("GET /health", ["Origin: http://evil.example"], 403, "evil.example"),
        ("GET /ws", [UPGRADE + "Origin: http://evil.example"], 403, "evil.example"),
        ("GET /ws", [], 426, "WebSocket"),
        ("GET /ws", [UPGRADE + "Sec-WebSocket-Protocol: chat"], 400, "openenv-gym.v1"),
        ("get /health", [], 400, "expected HTTP/1.1"),
        ("GET /health HTTP/1.1\r\nno header", [], 400, "expected HTTP/1.1"),
    ],
)
def test_what_is_not_served_is_refused_with_a_reason(router, line, headers, status, says):
    answer = ask(router, line, *[header.rstrip() for header in headers])
    assert isinstance(answer, HttpResponse)
    assert answer.status == status and says in answer.body.decode()
    assert b"Connection: close" in answer.to_bytes()


def test_who_shows_no_token_gets_nothing_but_open_routes(router):
    assert isinstance(ask(router, "GET /health", authorized=False), Call)
    for line, headers in [("POST /step", []), ("GET /ws", [UPGRADE.rstrip()])]:
        answer = ask(router, line, *headers, authorized=False)
        assert isinstance(answer, HttpResponse) and answer.status == 401
        assert answer.headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize("protocol", [None, "openenv-gym.v1", "chat, openenv-gym.v1"])
def test_a_websocket_speaks_what_was_offered(router, protocol):
    offer = "" if protocol is None else f"Sec-WebSocket-Protocol: {protocol}\r\n"
    answer = ask(router, "GET /ws?session_id=7", (UPGRADE + offer).rstrip())
    assert isinstance(answer, Upgrade) and answer.request.query == {"session_id": "7"}
    assert answer.subprotocol == (None if protocol is None else "openenv-gym.v1")
    assert b"101 Switching Protocols" in answer.response


def test_a_page_of_the_same_host_may_use_the_server(router):
    assert isinstance(ask(router, "GET /health", "Origin: http://here"), Call)


def test_a_client_that_asks_first_is_told_to_send_its_body(router):
    call = ask(router, "POST /step", "Content-Length: 7", "Expect: 100-continue")
    assert isinstance(call, Call) and call.expects_go
