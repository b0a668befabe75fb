"""Command line: ``python -m benchmarks NAME [--json] [--rounds 5]``."""

from __future__ import annotations

import argparse
import importlib
import sys

from benchmarks import BENCHMARKS
from benchmarks.harness import BenchmarkError, measure
from benchmarks.model import Benchmark
from benchmarks.reports import format_json, format_table


def main() -> int:
    """Measure what the command line names.

    Returns:
        0 when every limit is kept, 1 when one is not, 2 when nothing could be measured.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="which to run; none lists them")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--rounds", type=int, default=5, help="rounds to take the median of")
    parser.add_argument(
        "--scale", type=float, default=1.0, help="share of the usual steps in a round (quick look)"
    )
    parser.add_argument(
        "--peers-only", action="store_true", help="leave this library out and compare nothing"
    )
    options = parser.parse_args()
    if options.rounds < 1 or options.scale <= 0:
        parser.error("--rounds must be at least 1, and --scale more than 0")
    unknown = [name for name in options.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"no benchmark {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
    if not options.names:
        for name in BENCHMARKS:
            print(f"{name:23} {_load(name).title}")
        return 0

    reports = []
    try:
        for name in options.names:
            report = measure(
                _load(name),
                rounds=options.rounds,
                scale=options.scale,
                peers_only=options.peers_only,
            )
            reports.append(report)
            if not options.json:
                print(format_table(report), flush=True)
    except BenchmarkError as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("benchmarks: interrupted; every process is ended.", file=sys.stderr)
        return 130
    if options.json:
        print(format_json(reports))
    return 0 if all(report.passed for report in reports) else 1


def _load(name: str) -> Benchmark:
    module, _, attribute = BENCHMARKS[name].partition(":")
    benchmark = getattr(importlib.import_module(module), attribute)
    assert isinstance(benchmark, Benchmark)
    return benchmark


if __name__ == "__main__":
    sys.exit(main())
