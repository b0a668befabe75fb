"""What a step costs when the environment costs nothing."""

from __future__ import annotations

from benchmarks import peers
from benchmarks.model import Benchmark, Limit, Peer


BENCHMARK = Benchmark(
    name="roundtrip",
    title="scalar step of an environment that does nothing",
    ours=peers.hosted_or_local(
        "openenv-gym, a process",
        "openenv/Gymnasium-v0",
        modules=("openenv_gym",),
        # The module comes first, since it is the server that has to import it.
        env_id="benchmarks.trivial:benchmarks/Trivial-v0",
        provider="process",
        steps=10_000,
    ),
    peers=(
        Peer(peers.bare_echo(steps=10_000), Limit(time_at_most=1.6)),
        Peer(peers.openenv("trivial", steps=1_000), Limit(rate_at_least=4.0)),
    ),
)
