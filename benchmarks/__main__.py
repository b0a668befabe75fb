"""Command line: ``python -m benchmarks NAME [--json] [--rounds 5]``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks import BENCHMARKS, SCALING, load
from benchmarks.harness import BenchmarkError, measure, progress
from benchmarks.page import PAGE, update_page
from benchmarks.plot import draw, require_matplotlib
from benchmarks.reports import Report, format_json, format_table
from benchmarks.saved import FOLDER, read, save


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what the command line names.

    Returns:
        0 when every limit is kept, 1 when one is not, 2 when something could not be measured.
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.rounds < 1 or options.scale <= 0:
        parser.error("--rounds must be at least 1, and --scale more than 0")
    if options.peers_only and (options.save or options.plot):
        parser.error("--peers-only leaves out what --save and --plot are there to keep")
    known = [*BENCHMARKS, *SCALING, "all"]
    unknown = [name for name in options.names if name not in known]
    if unknown:
        parser.error(f"no benchmark {', '.join(unknown)}; there are {', '.join(known)}")
    if not (options.names or options.plot or options.page):
        _list()
        return 0
    reports: list[Report] = []
    failed = False
    try:
        if options.plot:
            require_matplotlib()
        failed = not _measure_all(_expand(options.names, options.plot), options, reports)
        if options.plot:
            for path in draw(read(options.output), options.output):
                progress(f"wrote {path}")
        if options.page:
            update_page(read(options.output))
            progress(f"wrote {PAGE}")
    except BenchmarkError as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        failed = True
    except KeyboardInterrupt:
        print("benchmarks: interrupted; every process is ended.", file=sys.stderr)
        return 130
    if options.json and options.names:
        print(format_json(reports))
    return 2 if failed else int(not all(report.passed for report in reports))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="which to run, or `all`; none lists them"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--rounds", type=int, default=5, help="rounds to take the median of")
    parser.add_argument(
        "--scale", type=float, default=1.0, help="share of the usual steps in a round (quick look)"
    )
    parser.add_argument(
        "--peers-only", action="store_true", help="leave this library out and compare nothing"
    )
    parser.add_argument("--save", action="store_true", help="keep the figures for picture and page")
    parser.add_argument(
        "--plot",
        action="store_true",
        help="with `all`: measure the curves too; keep the figures, draw the picture of all kept",
    )
    parser.add_argument(
        "--page", action="store_true", help="write the kept figures into docs/performance.md"
    )
    parser.add_argument(
        "--output", type=Path, default=FOLDER, help="where figures and picture are kept"
    )
    return parser


def _list() -> None:
    for name in BENCHMARKS:
        print(f"{name:23} {load(name)[0].title}")
    for name in SCALING:
        counts = ", ".join(str(benchmark.num_envs) for benchmark in load(name))
        print(f"{name:23} the same for {counts} environments, for the picture")


def _expand(names: Iterable[str], plot: bool) -> list[str]:
    """Return the names that `all` stands for, each once; curves only for a picture."""
    every = [*BENCHMARKS, *(SCALING if plot else ())]
    expanded = [each for name in names for each in (every if name == "all" else [name])]
    return list(dict.fromkeys(expanded))


def _measure_all(names: Iterable[str], options: argparse.Namespace, reports: list[Report]) -> bool:
    """Measure one after the other, show and keep each at once; False where one failed.

    One that cannot be measured is told, and those after it are measured all the same.
    """
    fine = True
    for benchmark in (each for name in names for each in load(name)):
        try:
            report = measure(
                benchmark,
                rounds=options.rounds,
                scale=options.scale,
                peers_only=options.peers_only,
            )
        except BenchmarkError as error:
            print(f"benchmarks: {benchmark.name}: {error}", file=sys.stderr)
            fine = False
            continue
        reports.append(report)
        if options.save or options.plot:
            save(report, options.output)
        if not options.json:
            print(format_table(report), flush=True)
    return fine


if __name__ == "__main__":
    sys.exit(main())
