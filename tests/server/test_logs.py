"""Lines of a log, for people and for programs."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

from openenv_gym.client import Connection, parse_base_url
from openenv_gym.server.logs import JsonFormatter, TextFormatter
from tests.support.waiting import eventually


def record(text: str, **extra: Any) -> logging.LogRecord:
    made = logging.LogRecord("openenv_gym.server", logging.INFO, __file__, 1, text, (), None)
    made.__dict__.update(extra)
    return made


def test_what_a_peer_says_forges_no_line_and_controls_no_terminal() -> None:
    said = "bad\n2026-01-01 00:00:00 INFO openenv_gym.server: forged\x1b[31m"
    lines = TextFormatter().format(record(said)).split("\n")
    assert len(lines) == 2 and lines[1].startswith("    2026") and "\x1b" not in lines[1]
    line = JsonFormatter().format(record(said))
    assert "\n" not in line and json.loads(line)["message"] == said


def test_fields_of_json() -> None:
    line = JsonFormatter("worker 3").format(record("opened", session="3-ab", peer="192.0.2.7:1"))
    fields = json.loads(line)
    assert fields.pop("time").endswith("+00:00")
    assert fields == {
        "level": "INFO",
        "logger": "openenv_gym.server",
        "message": "opened",
        "worker": "worker 3",
        "session": "3-ab",
        "peer": "192.0.2.7:1",
    }
    try:
        raise ValueError("why")
    except ValueError:
        failed = record("failed", exc_info=sys.exc_info())
    assert "ValueError: why" in json.loads(JsonFormatter().format(failed))["exception"]


def test_a_server_that_logs_json(command: Any, tmp_path: Any) -> None:
    (tmp_path / "token").write_text("s3cret-token")
    started = command("--log-format", "json", "--token-file", str(tmp_path / "token"))
    address = parse_base_url(started.url())
    connection = Connection(address, {"env_id": "CartPole-v1"}, token="s3cret-token", timeout_s=20)
    name, secret = connection.session_name, connection._session._token.hex()
    connection.close()
    assert eventually(lambda: f"{name}: ended" in started.log())
    told = [json.loads(line) for line in started.log().splitlines() if line.startswith("{")]
    ours = [each for each in told if each.get("session") == name]
    assert [each["message"].split(" for ")[0] for each in ours] == [
        f"Session {name}: opened",
        f"Session {name}: ended",
    ]
    assert all(each["peer"].startswith("127.0.0.1:") for each in ours)
    assert "s3cret" not in started.log() and secret not in started.log()
