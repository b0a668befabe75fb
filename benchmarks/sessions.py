"""Thousands of sessions on one server: how fast they are served, and what one holds when idle."""

from __future__ import annotations

from benchmarks import peers
from benchmarks.model import Benchmark, Limit, Peer


__all__ = ["MEMORY", "RATE"]

SESSIONS = 2048

RATE = Benchmark(
    name="sessions-2048",
    title=f"a step of any of {SESSIONS:,} sessions on one server, all of them busy",
    ours=peers.sessions("openenv-gym", sessions=SESSIONS, steps=40 * SESSIONS),
    peers=(
        Peer(
            peers.sessions("openenv", sessions=SESSIONS, steps=4 * SESSIONS),
            Limit(rate_at_least=5.0),
        ),
    ),
)

MEMORY = Benchmark(
    name="memory-session",
    title=f"memory of the server for an idle session, of {SESSIONS:,}",
    quantity="memory",
    ours=peers.session_memory("openenv-gym", sessions=SESSIONS),
    peers=(Peer(peers.session_memory("openenv", sessions=SESSIONS)),),
)
