"""Figures, read by Prometheus' own parser."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse

from openenv_gym.metrics import Registry, Tally, to_text


def test_durations_become_a_histogram() -> None:
    tally = Tally()
    for ns in (500, 3_000, 3_000_000, 2_000_000_000, 10**15):
        tally.add(ns)
    (family,) = parse(to_text([tally.to_family("openenv_step_seconds", "Steps.")]))
    assert (family.name, family.type, family.documentation) == (
        "openenv_step_seconds",
        "histogram",
        "Steps.",
    )
    buckets = [(s.labels["le"], s.value) for s in family.samples if s.name.endswith("_bucket")]
    counts = [count for _, count in buckets]
    assert counts == sorted(counts) and buckets[-1] == ("+Inf", 5)
    below = {float(bound): count for bound, count in buckets}
    assert below[2**10 / 1e9] == 1 and below[2**12 / 1e9] == 2 and below[2**22 / 1e9] == 3
    (total,) = (s.value for s in family.samples if s.name.endswith("_sum"))
    assert total == pytest.approx(1_000_002.0030035)


def test_counters_with_and_without_a_label() -> None:
    registry = Registry()
    registry.counter("openenv_warm_hits_total", "Warm.").add()
    registry.counter("openenv_warm_hits_total", "Warm.").add(2)
    errors = registry.counter("openenv_errors_total", "By code.", "code")
    errors.add(value='a "quoted"\\ one\n')
    warm, coded = parse(registry.to_text())
    assert [s.value for s in warm.samples] == [3]
    assert [(s.labels, s.value) for s in coded.samples] == [({"code": 'a "quoted"\\ one\n'}, 1)]


@pytest.mark.parametrize("data", [None, [], [1] * 65, [1.0] * 66, [-1] * 66, ["1"] * 66])
def test_what_is_no_tally(data: object) -> None:
    with pytest.raises(ValueError, match="no tally"):
        Tally.from_wire(data)


def test_a_tally_of_another_process() -> None:
    first, second = Tally(), Tally()
    first.add(100)
    second.add(10**9)
    second.merge(Tally.from_wire(first.to_wire()))
    assert second.total_ns == 10**9 + 100 and sum(second.counts) == 2
