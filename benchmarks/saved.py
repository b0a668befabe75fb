"""Figures that are kept in a file, so that picture and page are made of them without measuring."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from benchmarks.harness import ROOT, BenchmarkError, progress
from benchmarks.reports import Report, machine, plain


__all__ = ["FOLDER", "read", "save"]

FOLDER = ROOT / "docs" / "images"
_NAME = "performance.json"


def save(report: Report, folder: Path = FOLDER) -> None:
    """Put a report into the file, in the place of an earlier one of its name.

    Reports of another machine go, since what stands side by side is compared.
    """
    path = folder / _NAME
    here = machine()
    reports: dict[str, Any] = {}
    if path.exists():
        before = read(folder)
        if before["machine"] == here:
            reports = before["benchmarks"]
        else:
            progress(f"{path} is of another machine; its figures are dropped")
    today = datetime.now(timezone.utc).date().isoformat()
    reports[report.benchmark.name] = {"date": today, **plain(report)}
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"machine": here, "benchmarks": list(reports.values())}, indent=1)
    # Replaced as a whole: an interrupted run must not take earlier figures along.
    new = path.with_suffix(".new")
    new.write_text(text + "\n", encoding="utf-8")
    new.replace(path)


def read(folder: Path = FOLDER) -> dict[str, Any]:
    """Return what is kept: ``machine``, and ``benchmarks`` by their names.

    Raises:
        BenchmarkError: There is nothing, or something else.
    """
    path = folder / _NAME
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        reports = {report["name"]: report for report in data["benchmarks"]}
        return {"machine": data["machine"], "benchmarks": reports}
    except FileNotFoundError as error:
        raise BenchmarkError(
            f"{path} does not exist; `python -m benchmarks all --plot` makes it"
        ) from error
    except (KeyError, TypeError, ValueError) as error:
        raise BenchmarkError(f"{path} holds no figures: {error!r}") from error
