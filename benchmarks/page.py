"""Table and picture of docs/performance.md, made of the kept figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks import BENCHMARKS, SCALING, load
from benchmarks.harness import ROOT, BenchmarkError
from benchmarks.model import Benchmark
from benchmarks.reports import show_amount, show_comparison


__all__ = ["PAGE", "format_page_table", "update_page"]

PAGE = ROOT / "docs" / "performance.md"

_BEGIN = "<!-- {}: begin; `python -m benchmarks --page` writes what follows -->"
_END = "<!-- {}: end -->"
_MISSING = "**to be measured**"


def update_page(saved: Mapping[str, Any], page: Path = PAGE) -> None:
    """Write the kept figures into the page, and the picture of them, each between its two marks.

    Raises:
        BenchmarkError: The marks are not there.
    """
    text = page.read_text(encoding="utf-8")
    for name, content in (
        ("figures", format_page_table(saved)),
        ("picture", _picture(saved.get("benchmarks", {}))),
    ):
        begin, end = _BEGIN.format(name), _END.format(name)
        before, found, rest = text.partition(begin)
        _, closed, after = rest.partition(end)
        if not found or not closed:
            raise BenchmarkError(f"{page} lacks the lines {begin!r} and {end!r}")
        text = f"{before}{begin}\n\n{content}\n\n{end}{after}"
    page.write_text(text, encoding="utf-8")


def format_page_table(saved: Mapping[str, Any]) -> str:
    """Return the table of all benchmarks, with the facts of the machine above it.

    What has not been measured says so.

    Args:
        saved: What `saved.read` returned; where nothing was kept, an empty map will do.
    """
    reports: Mapping[str, Any] = saved.get("benchmarks", {})
    lines = [_machine(saved.get("machine"), [reports[n] for n in BENCHMARKS if n in reports]), ""]
    lines += ["| work | ours | peer | ratio | limit | command |", "|---|---|---|---|---|---|"]
    for name in BENCHMARKS:
        for benchmark in load(name):
            lines += _rows(benchmark, reports.get(benchmark.name))
    return "\n".join(lines)


def _rows(benchmark: Benchmark, report: Mapping[str, Any] | None) -> Iterator[str]:
    contenders = {each["name"]: each for each in report["contenders"]} if report else {}
    comparisons = {each["peer"]: each for each in report["comparisons"]} if report else {}
    work, command = benchmark.title, f"`python3 dev.py bench {benchmark.name}`"
    ours = _amount(benchmark, contenders.get(benchmark.ours.name))
    for peer in benchmark.peers:
        name = peer.contender.name
        found = comparisons.get(name)
        ratio = _MISSING
        if found is not None:
            ratio = show_comparison(found["measure"], found["ratio"])
            ratio += " (missed)" if found["passed"] is False else ""
        theirs = f"{name}: {_amount(benchmark, contenders.get(name))}"
        limit = "none" if peer.limit is None else str(peer.limit)
        yield f"| {work} | {ours} | {theirs} | {ratio} | {limit} | {command} |"
        work, ours, command = "", "", ""


def _amount(benchmark: Benchmark, contender: Mapping[str, Any] | None) -> str:
    if contender is None:
        return _MISSING
    if benchmark.quantity == "memory":
        return show_amount("memory", contender["session_bytes"])
    return show_amount("time", contender["step_us"] / 1e6)


def _machine(machine: Mapping[str, Any] | None, reports: list[Mapping[str, Any]]) -> str:
    if machine is None or not reports:
        return f"Machine, date, rounds: {_MISSING}."
    dates = sorted({report["date"] for report in reports})
    rounds = sorted({report["rounds"] for report in reports})
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    how_many = str(rounds[0]) if len(rounds) == 1 else f"{rounds[0]} to {rounds[-1]}"
    return (
        f"{machine['cores']} cores ({machine['processor']}), {machine['system']}, "
        f"Python {machine['python']}, {when}, medians of {how_many} interleaved rounds."
    )


def _picture(reports: Mapping[str, Any]) -> str:
    if any(benchmark.name in reports for name in SCALING for benchmark in load(name)):
        return "![Observations per second against num_envs](images/performance.png)"
    return f"The picture: {_MISSING}."
