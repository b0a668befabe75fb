"""What `/metrics` tells, and that it is true."""

from __future__ import annotations

import itertools
import sys
import time
import urllib.error
import urllib.request
from email.message import Message
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse

from openenv_gym import errors, metrics
from openenv_gym.client import Connection, parse_base_url
from openenv_gym.server import Server, create_app
from openenv_gym.server.figures import Figures
from tests.server.test_access import Failing
from tests.support.serving import serving
from tests.support.waiting import eventually
from tests.support.worlds import CountingEnv


def figures_of(url: str) -> dict[str, float]:
    """Return samples by their names; where they have a code, by name and code."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=20) as answer:
        assert answer.headers["Content-Type"] == metrics.CONTENT_TYPE
        text = answer.read().decode()
    found = {}
    for family in parse(text):
        for sample in family.samples:
            code = sample.labels.get("code")
            found[sample.name if code is None else f"{sample.name} {code}"] = sample.value
    return found


def test_sessions_steps_claims_errors_and_bytes() -> None:
    with serving(CountingEnv, capacity=3) as url:
        address = parse_base_url(url)
        before = figures_of(url)
        assert before["openenv_sessions_capacity"] == 3
        assert before["openenv_step_seconds_count"] == before["openenv_claim_seconds_count"] == 0
        begin_s = time.monotonic()
        first = Connection(address, {"step_s": 0.01}, timeout_s=20)
        second = Connection(address, {}, timeout_s=20)
        for connection in (first, second):
            connection.call("reset", [None, None])
            for _ in range(5):
                connection.call("step", [1])
            with pytest.raises(errors.ProtocolError):
                connection.call("nothing", [])
        now = figures_of(url)
        assert now["openenv_sessions_active"] == 2
        assert now["openenv_step_seconds_count"] == 10
        assert 0.05 <= now["openenv_step_seconds_sum"] <= time.monotonic() - begin_s
        assert now["openenv_claim_seconds_count"] == 2
        assert now["openenv_errors_total protocol_error"] == 2
        assert now["openenv_received_bytes_total"] > before["openenv_received_bytes_total"] + 200
        assert now["openenv_sent_bytes_total"] > 1000
        first.close()
        second.close()
        assert eventually(lambda: figures_of(url)["openenv_sessions_active"] == 0)
        later = figures_of(url)
        assert later["openenv_step_seconds_count"] == 10  # what has ended still counts
        assert later["openenv_sent_bytes_total"] > now["openenv_sent_bytes_total"]


def test_who_waits_and_who_is_refused() -> None:
    with serving(CountingEnv, capacity=1) as url:
        address = parse_base_url(url)
        connection = Connection(address, {}, timeout_s=20)
        with pytest.raises(errors.CapacityError):
            Connection(address, {}, timeout_s=20)
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(f"{url}/nowhere", timeout=20)
        caught.value.close()
        now = figures_of(url)
        assert now["openenv_errors_total at_capacity"] == 1
        assert now["openenv_errors_total http_404"] == 1
        assert now["openenv_sessions_queued"] == 0
        connection.close()


def test_what_the_process_counts_is_there_too() -> None:
    metrics.PROCESS.counter("openenv_warm_hits_total", "From a warm pool.").add(3)
    with serving(CountingEnv) as url:
        assert figures_of(url)["openenv_warm_hits_total"] >= 3


def test_bytes_of_a_connection_that_closes_meanwhile_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Server(create_app(CountingEnv))
    host, port = server.listen_tcp("127.0.0.1", 0)
    server.start()
    connection = Connection(parse_base_url(f"http://{host}:{port}"), {}, timeout_s=20)
    before = server.sum_figures()
    past = server.sessions.sum_figures

    def close_meanwhile() -> Figures:
        found = past()
        connection.close()
        eventually(lambda: server.left == 1, 1.0)
        return found

    monkeypatch.setattr(server.sessions, "sum_figures", close_meanwhile)
    now = server.sum_figures()
    assert now.received_bytes >= before.received_bytes > 0
    assert now.sent_bytes >= before.sent_bytes > 0
    server.stop()


def test_errors_of_an_environment_have_a_code() -> None:
    with serving(Failing) as url:
        connection = Connection(parse_base_url(url), {}, timeout_s=20)
        connection.call("reset", [None, None])
        for _ in range(3):
            with pytest.raises(errors.EnvironmentFailedError):
                connection.call("step", [1])
        assert figures_of(url)["openenv_errors_total environment_failed"] == 3
        connection.close()


def test_what_exceptions_call_a_code_is_none() -> None:
    made = itertools.count()

    def make() -> Any:
        if next(made) % 2:
            raise urllib.error.HTTPError("http://there", 404, "gone", Message(), None)
        sys.exit(f"cannot open display :{next(made)}")

    with serving(make) as url:
        for _ in range(4):
            with pytest.raises(errors.EnvironmentFailedError):
                Connection(parse_base_url(url), {}, timeout_s=20)
        now = figures_of(url)
    told = {name: count for name, count in now.items() if "errors_total" in name}
    assert told == {"openenv_errors_total environment_failed": 4}


def test_workers_are_added_up(command: Any) -> None:
    url = command("--workers", "2").url()
    held = [
        Connection(parse_base_url(url), {"env_id": "CartPole-v1"}, timeout_s=30) for _ in range(4)
    ]
    for connection in held:
        connection.call("reset", [None, None])
        for _ in range(3):
            connection.call("step", [1])

    def told() -> bool:  # a worker that is slow to answer counts with what it said before
        now = figures_of(url)
        return (
            now["openenv_sessions_active"] == 4
            and now["openenv_step_seconds_count"] == 12
            and now["openenv_claim_seconds_count"] == 4
            and now["openenv_sent_bytes_total"] > 4000
        )

    assert eventually(told)
    for connection in held:
        connection.close()
    assert eventually(lambda: figures_of(url)["openenv_sessions_active"] == 0)
    assert eventually(lambda: figures_of(url)["openenv_step_seconds_count"] == 12)


@pytest.mark.parametrize(
    "data",
    [
        None,
        {},
        {"steps": [], "claims": [], "errors": {}, "bytes": [1, 2]},
        {"steps": [0] * 66, "claims": [0] * 66, "errors": [], "bytes": [1, 2]},
        {"steps": [0] * 66, "claims": [0] * 66, "errors": {}, "bytes": ["1", 2]},
        {"steps": [0] * 66, "claims": [0] * 66, "errors": {}, "bytes": [1, -2]},
        {"steps": [0] * 65 + [10**400], "claims": [0] * 66, "errors": {}, "bytes": [1, 2]},
    ],
)
def test_what_is_no_figures(data: Any) -> None:
    with pytest.raises(ValueError, match=r"no (figures|tally)"):
        Figures.from_wire(data)


def test_a_worker_cannot_invent_labels() -> None:
    wire = Figures().to_wire()
    wire["errors"] = {**{f"c{i}": 1 for i in range(1000)}, 'x"} 1\nevil': 1}
    read = Figures.from_wire(wire)
    assert len(read.errors) <= 64 and all(code.isidentifier() for code in read.errors)
