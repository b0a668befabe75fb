"""Figures that a session's process leaves, and what one that means harm can do with them."""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from openenv_gym.server.figures import Figures
from openenv_gym.server.workers import WorkerOptions, attendants
from openenv_gym.server.workers import ledger as ledgers
from openenv_gym.server.workers.attendants import Attendants
from openenv_gym.server.workers.ledger import Ledger, make_ledger


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    made = make_ledger()
    yield made
    made.close()
    made.close()  # again


def figures(steps: int, **errors: int) -> Figures:
    made = Figures()
    for _ in range(steps):
        made.steps.add(1000)
    made.errors.update(errors)
    return made


def test_what_is_written_is_read(ledger: Ledger) -> None:
    assert ledger.read().to_wire() == Figures().to_wire()  # nothing yet
    for count in (3, 5):
        ledger.write(figures(count, at_capacity=1, http_404=2))
        assert ledger.read().to_wire() == figures(count, at_capacity=1, http_404=2).to_wire()


@pytest.mark.parametrize(
    "nonsense",
    [b"x" * 100, bytes(1 << 13), b"\xff" * 64, struct.pack("<LL", 2, zlib.crc32(b"[]")) + b"[]"],
    ids=["text", "zeros", "ones", "no figures"],
)
def test_nonsense_changes_nothing(ledger: Ledger, nonsense: bytes) -> None:
    ledger.write(figures(3))
    ledger.read()
    os.pwrite(ledger.fd, nonsense, 0)
    assert sum(ledger.read().steps.counts) == 3


def test_codes_that_are_none_of_ours_are_one(ledger: Ledger) -> None:
    made_up = {f"made_up_{number}": 1 for number in range(40)}
    ledger.write(figures(1, at_capacity=1, http_999=1, **made_up))
    assert ledger.read().errors == {"at_capacity": 1, "other": 41}


def test_its_size_is_what_it_is(ledger: Ledger) -> None:
    if not hasattr(os, "memfd_create"):
        pytest.skip("there are no seals")
    for size in (0, 1 << 20):
        with pytest.raises(PermissionError):
            os.ftruncate(ledger.fd, size)
    with pytest.raises(PermissionError):
        os.pwrite(ledger.fd, b"x", ledgers._SIZE_BYTES)


def test_what_is_counted_never_becomes_less(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attendants, "_ANSWER_S", 0.2)
    staff = Attendants(WorkerOptions("gymnasium"), lambda peer: None, cast("Any", None))
    staff._workers[1] = cast("Any", SimpleNamespace(ledger=ledger))
    ledger.write(figures(3, at_capacity=1))
    with monkeypatch.context() as patch:
        patch.setattr(staff, "_do", lambda job: job())  # its thread has time at once
        assert sum(staff.take().steps.counts) == 3
    found = staff.take()  # and now it has none
    assert sum(found.steps.counts) == 3 and found.errors == {"at_capacity": 1}
    found.errors.clear()  # which is the caller's
    assert staff.take().errors == {"at_capacity": 1}
