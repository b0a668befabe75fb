"""The battery of attacks: what is hardened holds, and what is not is told."""

from __future__ import annotations

from typing import Any

import pytest

from openenv_gym.doctor.attack import report
from openenv_gym.doctor.attack.battery import Battery, Finding
from openenv_gym.doctor.attack.rows import ROWS, Held, Row
from openenv_gym.providers.docker import container
from tests.support.images import EVERY_PACKAGE, image


_QUICK = ("files", "network", "rights", "secrets", "neighbour")
"""What needs no container of its own; the rest takes minutes."""


def run(docker: Any, rows: list[Row], **options: Any) -> list[Finding]:
    with Battery(docker, image("base"), rows=rows, **options) as battery:
        return battery.run()


def named(*names: str) -> list[Row]:
    rows = [row for row in ROWS if row.name in names]
    assert len(rows) == len(names)
    return rows


def not_held(findings: list[Finding]) -> list[Finding]:
    return [each for each in findings if each.state != "held"]


@pytest.mark.container
@pytest.mark.timeout(600)
def test_attacks_that_are_refused(docker: Any) -> None:
    rows = [row for row in ROWS if row.group in _QUICK and row.reach == "auto"]
    findings = run(docker, rows)
    assert not_held(findings) == []
    assert all(each.control for each in findings)  # each succeeded somewhere
    assert {each.where for each in findings} == {"own", "shared"}


@pytest.mark.long
@pytest.mark.container
@pytest.mark.timeout(1800)
def test_all_attacks(docker: Any) -> None:
    assert not_held(run(docker, list(ROWS))) == []


@pytest.mark.long
@pytest.mark.images
@pytest.mark.container
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("package", EVERY_PACKAGE)
def test_all_attacks_on_an_environment(docker: Any, package: str) -> None:
    with Battery(docker, image(package), rows=list(ROWS)) as battery:
        assert not_held(battery.run()) == []


@pytest.mark.container
@pytest.mark.timeout(300)
def test_what_is_not_hardened_is_told(docker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    real = container.container_options

    def weaker(*args: Any, **kwargs: Any) -> dict[str, Any]:
        return {**real(*args, **kwargs), "network_mode": "bridge", "shm_size": 64 << 20}

    monkeypatch.setattr(container, "container_options", weaker)
    findings = run(docker, named("send to the internet", "fill /dev/shm", "mount"))
    own = {each.name: each.state for each in findings if each.where == "own"}
    assert own == {"send to the internet": "broke", "fill /dev/shm": "broke", "mount": "held"}
    assert not report.passed(findings)


def _impossible() -> tuple[bool, str]:
    raise PermissionError(1, "no")


@pytest.mark.container
@pytest.mark.timeout(300)
def test_what_succeeds_nowhere_shows_nothing(docker: Any) -> None:
    row = Row("test", "do the impossible", _impossible, held=Held.REFUSED, shared=False)
    (finding,) = run(docker, [row])
    assert finding.state == "void"
    assert "plain docker run: EPERM" in finding.detail
    assert not report.passed([finding])


# -- the table ----------------------------------------------------------------------------------


def finding(state: str, neighbour_s: float | None = 0.01) -> Finding:
    return Finding(
        "files", "fill the disk", "own", "plain docker run", state, "ENOSPC", neighbour_s
    )


def test_the_table_says_what_was_held_off() -> None:
    findings = [finding("held"), finding("broke"), finding("void", None)]
    words = [report.line(each).split()[0] for each in findings]
    assert words == ["pass", "FAIL", "void"]
    assert "1 of 3 held off, 1 NOT, 1 void" in report.summary(findings)
    assert not report.passed(findings)
    assert report.passed([finding("held")])


def test_a_neighbour_that_waits_is_a_failure() -> None:
    slow = finding("held", neighbour_s=60.0)
    assert report.line(slow).split()[0] == "SLOW"
    assert not report.passed([slow])
    assert "60000 ms" in report.line(slow)


def test_what_an_attack_says_does_not_reach_the_terminal() -> None:
    loud = Finding("files", "x", "own", "plain", "broke", "\x1b[2Jgone")
    assert "\x1b" not in report.line(loud)
