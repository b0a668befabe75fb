"""The page behind a server: who gets it, what it costs who does not want it, how it ends."""

from __future__ import annotations

import base64
import http.client
import json
import os
import signal
import subprocess
import sys
import urllib.parse
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Origin

from echo_env.models import EchoAction, EchoObservation
from echo_env.server.echo_environment import EchoEnvironment
from openenv_gym import errors
from openenv_gym.server import Server, create_app, create_web_interface_app
from openenv_gym.server import __main__ as command_line
from tests.server.conftest import Command
from tests.server.workers.conftest import children
from tests.support.waiting import eventually
from tests.support.worlds import CountingEnv


BASIC = {"Authorization": "Basic " + base64.b64encode(b"me:secret").decode()}


def get(
    url: str, path: str, headers: dict[str, str] | None = None, method: str = "GET"
) -> tuple[int, dict[str, str], bytes]:
    line = http.client.HTTPConnection(urllib.parse.urlsplit(url).netloc, timeout=60)
    line.request(method, path, headers=headers or {})
    answer = line.getresponse()
    found = answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
    line.close()
    return found


@pytest.mark.timeout(300)
def test_the_page_is_there_for_who_may_have_it_and_ends_with_the_server(tmp_path: Path) -> None:
    # One test, for the page's program takes seconds to start, and many on a busy machine.
    (tmp_path / "token").write_text("secret")
    server = Command(
        tmp_path,
        "--token-file",
        str(tmp_path / "token"),
        "--option",
        "env_id=CartPole-v1",
        ENABLE_WEB_INTERFACE="true",
    )
    try:
        url = server.url()
        _is_shown_to_who_knows_the_token(url)
        _is_shown_to_nobody_else(url)
        _tells_tabs_that_are_not_known(url)
        (page,) = _pages(server.process.pid)
    finally:
        server.close()
    assert eventually(lambda: not Path(f"/proc/{page}").exists())
    assert "Waiting" not in server.log() and "Traceback" not in server.log()


def _is_shown_to_who_knows_the_token(url: str) -> None:
    status, headers, body = get(url, "/web/", BASIC)
    assert status == 200 and b"live.js" in body
    assert headers["connection"] == "close"  # each request is the server's to decide about
    policy = headers["content-security-policy"]
    assert "default-src 'self'" in policy and "connect-src 'self'" in policy
    status, headers, _ = get(url, "/", BASIC)
    assert (status, headers["location"]) == (307, "/web/")
    status, _, body = get(url, "/web/page/live.js", {"Authorization": "Bearer secret"})
    assert status == 200 and b"WebSocket" in body
    for path in ("upload", "file=/etc/passwd", "proxy=http://example.com/"):
        assert get(url, f"/web/gradio_api/{path}", BASIC)[0] == 404


def _is_shown_to_nobody_else(url: str) -> None:
    wrong = {"Authorization": "Basic " + base64.b64encode(b"secret:").decode()}
    for path in ("/", "/web", "/web/", "/web/page/live.js", "/web/live"):
        status, headers, _ = get(url, path)
        assert status == 401 and headers["www-authenticate"].startswith("Basic")
        assert get(url, path, wrong)[0] == 401
    assert get(url, "/sessions", BASIC)[0] == 401  # other routes take no password
    assert get(url, "/web/", {**BASIC, "Origin": "http://evil.example"})[0] == 403
    ws = url.replace("http", "ws")
    with (
        pytest.raises(InvalidStatus) as refused,
        connect(
            f"{ws}/web/live?tab=x", additional_headers=BASIC, origin=Origin("http://evil.example")
        ),
    ):
        pass
    assert refused.value.response.status_code == 403


def _tells_tabs_that_are_not_known(url: str) -> None:
    ws = url.replace("http", "ws")
    with connect(f"{ws}/web/live?tab=x", additional_headers=BASIC, open_timeout=60) as line:
        assert json.loads(line.recv(60)) == {"kind": "unknown"}


def test_a_strange_name_of_this_machine_is_refused_where_there_is_no_token() -> None:
    from openenv_gym.server.http import Handover, Router

    def ask(host: str, **options: Any) -> Any:
        head = f"GET /web/ HTTP/1.1\r\nHost: {host}\r\n\r\n"
        return Router([], web=True, **options).answer(head.encode())

    for own in ("localhost:8000", "127.0.0.1", "[::1]:8000", "192.0.2.3"):
        assert isinstance(ask(own), Handover)
    assert ask("rebound.example").status == 403  # DNS rebinding
    assert isinstance(ask("lab.example:80", hosts=["lab.example"]), Handover)


@pytest.mark.parametrize("host", ["[", "[::1"])
def test_a_host_that_is_none_is_answered(host: str) -> None:
    from openenv_gym.server.http import HttpResponse, Router

    head = f"GET /web HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
    for token in (None, "secret"):
        answer = Router([], web=True, token=token).answer(head)
        assert isinstance(answer, HttpResponse) and answer.status == 400


def test_a_server_without_it_knows_no_such_path_and_imports_nothing_for_it() -> None:
    code = (
        "import sys; from openenv_gym.server import Server, load_app;"
        "server = Server(load_app('echo_env'));"
        "server.start(); server.stop();"
        "print(sorted({name.partition('.')[0] for name in sys.modules}"
        " & {'gradio', 'uvicorn', 'starlette', 'fastapi', 'PIL', 'asyncio'}));"
        "print('openenv_gym.server.web' in sys.modules, 'openenv_gym.web' in sys.modules)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=_root()
    )
    lines = ended.stdout.splitlines()
    assert lines[-1] == "False False"
    assert not {"gradio", "uvicorn", "starlette", "fastapi"} & set(eval(lines[-2]))


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(errors.ConfigurationError, match=r"gradio.*openenv-gym\[web\]"):
        Server(create_app(CountingEnv), web=True)


@pytest.mark.timeout(300)
def test_a_page_that_died_comes_again_and_that_of_a_killed_server_goes_too(tmp_path: Path) -> None:
    server = Command(tmp_path, "--web", "--option", "env_id=CartPole-v1")
    pages: set[int] = set()
    url = server.url()

    def started() -> bool:
        pages.update(_pages(server.process.pid))
        return bool(pages)

    assert eventually(started)
    os.kill(pages.pop(), signal.SIGKILL)  # then who asks for it has it started again
    assert eventually(lambda: _answers(url), 90)
    assert eventually(started)
    server.process.kill()
    server.close()
    assert eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pages))


# -- create_web_interface_app ---------------------------------------------------------------


def test_an_app_as_the_articles_make_it_shows_the_page() -> None:
    app = create_web_interface_app(EchoEnvironment(), EchoAction, EchoObservation)
    assert app.web and app.name == "EchoEnvironment"
    first, second = app.open({}), app.open({})
    assert first.env.unwrapped is not second.env.unwrapped
    first.execute("reset_typed", [{}])
    value, _ = first.execute("step_typed", [{"message": "hello"}])
    assert value[0]["echoed_message"] == "hello"
    first.close()
    second.close()


def test_a_model_that_is_none_is_refused() -> None:
    with pytest.raises(errors.InvalidOptionError, match="action_cls"):
        create_web_interface_app(EchoEnvironment, dict)  # type: ignore[arg-type]


def test_the_flag_and_the_variable_ask_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from openenv_gym.server.web_paths import wants_web

    for word, wanted in (("true", True), ("1", True), ("", False), ("false", False)):
        monkeypatch.setenv("ENABLE_WEB_INTERFACE", word)
        assert wants_web() is wanted
    with pytest.raises(SystemExit):
        command_line.main(["--help"])


def _root() -> Path:
    return Path(__file__).parents[2]


def _answers(url: str) -> bool:
    try:
        return get(url, "/web/page/live.js")[0] == 200
    except OSError:
        return False


def _pages(pid: int) -> set[int]:
    """Return the programs of pages that a server has started."""
    return {each for each in children(pid) if _is_page(each)}


def _is_page(pid: int) -> bool:
    try:
        return b"openenv_gym.web" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
