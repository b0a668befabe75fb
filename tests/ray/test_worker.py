"""What a worker answers, in this process: of Ray, only its address is asked for."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from openenv_gym.ray.worker import Worker


@pytest.fixture(autouse=True)
def _ray(monkeypatch: pytest.MonkeyPatch) -> None:
    util = SimpleNamespace(get_node_ip_address=lambda: "10.0.0.1")
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(util=util))


def test_why_a_provider_cannot_be_had_is_told() -> None:
    def provider() -> Any:
        raise ValueError("no cluster in this\nplace")

    outcome = Worker("openenv_gym:openenv/CartPole-v1", {"provider": provider}).open(None)
    assert outcome.kind == "failed" and str(outcome.error) == "no cluster in this\nplace"
