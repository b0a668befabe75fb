"""What is compared, in which direction, and when a limit is kept."""

from __future__ import annotations

import pytest

from benchmarks.model import Benchmark, Contender, Limit, Peer, Quantity
from benchmarks.reports import Figures, Report, format_table, plain


OURS = Contender("ours", "echo", {}, 10)
PEER = Contender("peer", "echo", {}, 10)


def report(
    limit: Limit | None,
    ours: list[float],
    theirs: list[float],
    *,
    quantity: Quantity = "time",
    num_envs: int = 1,
) -> Report:
    benchmark = Benchmark(
        "some", "something", OURS, (Peer(PEER, limit),), quantity=quantity, num_envs=num_envs
    )
    figures = {"ours": Figures(10, {}, ours), "peer": Figures(10, {}, theirs)}
    return Report(benchmark, len(ours), figures)


@pytest.mark.parametrize(
    ("limit", "quantity", "ratio", "passed"),
    [
        (Limit(rate_at_least=4.0), "time", 4.0, True),
        (Limit(rate_at_least=4.1), "time", 4.0, False),
        (Limit(time_at_most=0.25), "time", 0.25, True),
        (Limit(time_at_most=0.2), "time", 0.25, False),
        (Limit(more_at_most_s=-0.3), "time", -0.3, True),
        (Limit(more_at_most_s=-0.4), "time", -0.3, False),
        (None, "time", 4.0, True),
        (None, "memory", 0.25, True),
    ],
)
def test_medians_are_compared_as_the_limit_has_it(
    limit: Limit | None, quantity: Quantity, ratio: float, passed: bool
) -> None:
    # The medians are 0.1 and 0.4; the means are not.
    found = report(limit, [0.1, 0.1, 9.0], [0.4, 0.4, 0.0], quantity=quantity)
    assert found.comparisons[0][1] == pytest.approx(ratio)
    assert found.passed is passed


def test_a_missed_limit_is_seen_in_the_table() -> None:
    table = format_table(report(Limit(rate_at_least=5.0), [0.001], [0.004]))
    assert "1.00 ms" in table and "1,000" in table
    assert "4.00x" in table and "rate >= 5x" in table and "FAIL" in table


def test_a_step_of_several_environments_tells_observations_too() -> None:
    found = report(None, [0.001], [0.004], num_envs=8)
    assert "8,000" in format_table(found)
    assert plain(found)["contenders"][0]["observations_per_s"] == pytest.approx(8000)


def test_memory_is_shown_in_bytes_and_without_a_verdict() -> None:
    found = report(None, [1000.0], [20480.0], quantity="memory")
    table = format_table(found)
    assert "1,000 B" in table and "20.0 KiB" in table and "0.05x" in table
    assert "pass" not in table and "steps/s" not in table
    assert plain(found)["contenders"][1]["session_bytes"] == 20480.0
