"""Bounds of a single peer, where its sessions are in several processes."""

from __future__ import annotations

from typing import Any

import pytest

from openenv_gym import errors
from openenv_gym.client import Connection, parse_base_url
from tests.server.workers.conftest import Serve
from tests.support.waiting import eventually


@pytest.mark.parametrize("how", [["--workers", "2"], ["--isolate-sessions"]])
def test_a_peer_has_its_share(serve: Serve, how: list[str]) -> None:
    address = parse_base_url(serve("--max-sessions-per-peer", "2", *how).url)
    held: list[Any] = []

    def connects() -> bool:
        try:
            held.append(Connection(address, {}, timeout_s=60))
        except errors.CapacityError as error:
            assert error.data["max_sessions_per_peer"] == 2
            return False
        return True

    assert connects() and connects() and not connects()
    held.pop().close()
    assert eventually(connects)
    assert not connects()
    for each in held:
        each.close()
