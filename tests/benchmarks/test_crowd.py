"""The load generator, against a real server."""

from __future__ import annotations

import json
import os
import select
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.drivers.crowd import Crowd, CrowdError
from benchmarks.drivers.servers import Server, trivial_server
from benchmarks.drivers.session_memory import memory_bytes
from benchmarks.drivers.wires import OpenEnvGymWire, OpenEnvWire, WrongReply


pytestmark = pytest.mark.skipif(
    not hasattr(select, "epoll"), reason="the load generator needs epoll, which Linux has"
)

ROOT = Path(__file__).parents[2]

SESSIONS = 5


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with pytest.MonkeyPatch.context() as patch:
        # Where the harness puts it: the server imports the trivial environment.
        patch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
        # Sessions outlive their connections for a while, so there are those of all tests.
        with trivial_server("openenv-gym", 4 * SESSIONS) as running:
            yield running


class CountingWire(OpenEnvGymWire):
    """Counts the replies that were good."""

    def __init__(self) -> None:
        super().__init__()
        self.good: Counter[int] = Counter()

    def check(self, number: int, payload: bytes) -> None:
        super().check(number, payload)
        self.good[number] += 1


def test_every_session_takes_its_share_and_every_reply_is_checked(server: Server) -> None:
    wire = CountingWire()
    with Crowd(server.address, wire) as crowd:
        crowd.grow(SESSIONS)
        assert crowd.step(2 * SESSIONS + 2) > 0
        # Two sessions had a third step.
        assert wire.good == {1: SESSIONS, 2: SESSIONS, 3: 2}
        crowd.step(3)  # fewer steps than sessions
        assert wire.good.total() == 2 * SESSIONS + 2 + 3


def test_a_wrong_reply_is_told(server: Server) -> None:
    class Expecting(OpenEnvGymWire):
        def __init__(self) -> None:
            super().__init__()
            self._expected[1] = 2.0  # another reward

    with Crowd(server.address, Expecting()) as crowd:
        crowd.grow(1)
        with pytest.raises(WrongReply, match="step 1 was answered with"):
            crowd.step(1)


def test_a_server_that_refuses_is_told(server: Server) -> None:
    class Stranger(OpenEnvGymWire):
        subprotocol = "something-else"

    with Crowd(server.address, Stranger()) as crowd, pytest.raises(CrowdError):
        crowd.grow(1)


def test_memory_of_a_server_is_read(server: Server) -> None:
    # Python with NumPy and Gymnasium: tens of megabytes, not kilobytes or gigabytes.
    assert 10 << 20 < memory_bytes(server.pid) < 1 << 30


GOOD: dict[str, Any] = {
    "type": "observation",
    "data": {"observation": {"values": [0.1, 0.2, 0.3, 0.4]}, "reward": 1.0, "done": False},
}


def test_a_good_reply_of_openenv_is_taken() -> None:
    OpenEnvWire().check(1, json.dumps(GOOD).encode())


@pytest.mark.parametrize(
    "changed",
    [
        {"type": "error", "data": {"message": "no"}},
        {"data": {**GOOD["data"], "reward": 0.0}},
        {"data": {**GOOD["data"], "done": True}},
        {"data": {**GOOD["data"], "observation": {"values": [0.1, 0.2, 0.3, 0.5]}}},
    ],
)
def test_another_reply_of_openenv_is_not(changed: dict[str, object]) -> None:
    with pytest.raises(WrongReply):
        OpenEnvWire().check(1, json.dumps({**GOOD, **changed}).encode())
