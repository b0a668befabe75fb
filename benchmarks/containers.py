"""What a hardened container costs: until the first observation, and in each step."""

from __future__ import annotations

from benchmarks import peers
from benchmarks.model import Benchmark, Contender, Limit, Peer


__all__ = ["ATARI", "ECHO", "START_ATARI", "START_ECHO"]


def _hosted(provider: str, env_id: str, steps: int, **kwargs: object) -> Contender:
    where = {"docker": "a container", "process": "a process"}[provider]
    return peers.hosted_or_local(
        f"openenv-gym, {where}",
        env_id,
        modules=("openenv_gym",),
        provider=provider,
        steps=steps,
        **kwargs,
    )


ECHO = Benchmark(
    name="container-echo",
    title="a step of Echo in a hardened container",
    ours=_hosted("docker", "openenv/Echo-v0", 10_000),
    peers=(Peer(_hosted("process", "openenv/Echo-v0", 10_000), Limit(rate_at_least=0.95)),),
)

ATARI = Benchmark(
    name="container-atari",
    title="a step of Pong, 210x160x3 frames, in a hardened container",
    ours=_hosted("docker", "openenv/Atari-v0", 2_000, game="pong"),
    peers=(
        Peer(_hosted("process", "openenv/Atari-v0", 2_000, game="pong"), Limit(rate_at_least=0.95)),
    ),
)

START_ECHO = Benchmark(
    name="start-echo",
    title="from make to the first observation of Echo, image present",
    ours=peers.first_observation(
        "openenv-gym, a container", "openenv/Echo-v0", provider="docker", steps=3
    ),
    peers=(Peer(peers.bare_container(steps=3), Limit(more_at_most_s=0.7)),),
)

START_ATARI = Benchmark(
    name="start-atari",
    title="from make to the first observation of Atari, image present",
    ours=peers.first_observation(
        "openenv-gym, a container", "openenv/Atari-v0", game="pong", provider="docker", steps=3
    ),
    peers=(Peer(peers.bare_container(steps=3), Limit(more_at_most_s=1.0)),),
)
