"""The table of docs/performance.md."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks import BENCHMARKS, load
from benchmarks.harness import BenchmarkError
from benchmarks.page import PAGE, format_page_table, update_page
from benchmarks.reports import Figures, Report, plain


def kept(name: str, *amounts: float) -> dict[str, Any]:
    """Return what is kept where a benchmark's contenders came out like this."""
    benchmark = load(name)[0]
    contenders = [benchmark.ours, *(peer.contender for peer in benchmark.peers)]
    figures = {
        each.name: Figures(1, {}, [amount])
        for each, amount in zip(contenders, amounts, strict=True)
    }
    machine = {"cores": 2, "processor": "Z80", "system": "CP/M", "python": "3.11"}
    report = {"date": "2031-01-02", **plain(Report(benchmark, 1, figures))}
    return {"machine": machine, "benchmarks": {benchmark.name: report}}


def test_what_was_not_measured_says_so() -> None:
    rows = format_page_table({}).splitlines()[4:]
    assert len(rows) == sum(len(load(name)[0].peers) for name in BENCHMARKS)
    assert all("**to be measured**" in row for row in rows)
    commands = [row for row in rows if "dev.py bench" in row]
    assert [row.split("bench ")[1].split("`")[0] for row in commands] == list(BENCHMARKS)


def test_figures_ratio_and_a_missed_limit_stand_in_their_row() -> None:
    table = format_page_table(kept("roundtrip", 50e-6, 25e-6, 500e-6))
    assert "2 cores (Z80), CP/M, Python 3.11, 2031-01-02, medians of 1" in table
    echo, openenv = (row for row in table.splitlines() if "50.0 us" in row or "500.0 us" in row)
    assert "bare WebSocket echo: 25.0 us | 2.00x (missed) | time <= 1.6x" in echo
    assert "openenv 0.10: 500.0 us | 10.00x | rate >= 4x" in openenv


def test_memory_has_no_limit() -> None:
    table = format_page_table(kept("memory-session", 10 * 1024.0, 40 * 1024.0))
    assert "| 10.0 KiB | openenv 0.10: 40.0 KiB | 0.25x | none |" in table


def test_only_what_stands_between_marks_is_written(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    text = PAGE.read_text(encoding="utf-8")
    page.write_text(text, encoding="utf-8")
    update_page(kept("roundtrip", 50e-6, 25e-6, 500e-6), page)
    assert "2.00x (missed)" in page.read_text(encoding="utf-8")
    update_page({}, page)
    written = page.read_text(encoding="utf-8")
    assert format_page_table({}) in written
    between = re.compile(r"(<!-- (\w+): begin[^>]*-->).*?(<!-- \2: end -->)", re.DOTALL)
    assert between.sub(r"\1\3", written) == between.sub(r"\1\3", text)


def test_the_picture_is_shown_where_its_points_were_measured(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    update_page(kept("roundtrip", 50e-6, 25e-6, 500e-6), page)
    assert "(images/performance.png)" not in page.read_text(encoding="utf-8")
    points = len(load("scaling-cartpole")[0].peers) + 1
    update_page(kept("scaling-cartpole", *[1e-3] * points), page)
    assert "(images/performance.png)" in page.read_text(encoding="utf-8")


def test_a_page_without_marks_is_left_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("nothing here")
    with pytest.raises(BenchmarkError, match="figures: begin"):
        update_page({}, page)
    assert page.read_text() == "nothing here"


@pytest.mark.parametrize("name", BENCHMARKS)
def test_the_page_says_what_bounds_each_row(name: str) -> None:
    bounds = PAGE.read_text(encoding="utf-8").partition("## What bounds each row")[2]
    headings = [line.partition(".**")[0] for line in bounds.splitlines() if line.startswith("**`")]
    assert any(f"`{name}`" in heading for heading in headings)
