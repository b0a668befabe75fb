"""Programs: what a step costs beside the same interpreter, asked in this process."""

from __future__ import annotations

from benchmarks import peers
from benchmarks.model import Benchmark, Peer


BENCHMARK = Benchmark(
    name="coding",
    title="`x = 1` in an interpreter of its own",
    ours=peers.programs("openenv-gym, a process", hosted=True, steps=2_000),
    peers=(
        Peer(peers.programs("the same interpreter, without a server", hosted=False, steps=2_000)),
    ),
)
