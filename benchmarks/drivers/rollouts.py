"""Collects rollouts: with Ray, or with as many vector environments in this process.

Both play the same batches, with the same code, and put all that came into one result.

Options: ``kind`` (``"ray"`` or ``"threads"``), ``id``, ``vectors`` (so many of them), ``num_envs``
of each.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import gymnasium

from benchmarks.drivers.common import SEED, Round, serve
from openenv_gym.ray import Collector, Rollouts, merge
from openenv_gym.ray.playing import Amount, load_actor, play


_BATCHES = 4  # of each vector environment, in a round


@contextmanager
def with_ray(options: dict[str, Any]) -> Generator[Callable[[int], Rollouts], None, None]:
    """Give a function that collects rollouts of so many steps with workers of Ray."""
    import ray

    ray.init(
        address="local",  # also where a cluster of somebody else runs
        num_cpus=options["vectors"],
        object_store_memory=200_000_000,
        include_dashboard=False,
        log_to_driver=False,
        _node_ip_address="127.0.0.1",
    )
    rollouts = options["vectors"] * options["num_envs"] * _BATCHES
    made: dict[int, Collector] = {}

    def collect(steps: int) -> Rollouts:
        if steps not in made:  # one for all rounds
            made[steps] = Collector(
                options["id"],
                rollouts=rollouts,
                steps=steps,
                seed=SEED,
                num_workers=options["vectors"],
                num_envs=options["num_envs"],
                provider="process",
            )
        return made[steps].collect()

    try:
        yield collect
    finally:
        for collector in made.values():
            collector.close()
        ray.shutdown()


@contextmanager
def with_threads(options: dict[str, Any]) -> Generator[Callable[[int], Rollouts], None, None]:
    """Give a function that does the same in this process, with a thread for each vector."""
    with ExitStack() as stack:
        vectors = []
        for _ in range(options["vectors"]):
            envs = gymnasium.make_vec(
                f"openenv_gym:{options['id']}",
                num_envs=options["num_envs"],
                num_servers=1,
                provider="process",
            )
            stack.callback(envs.close)
            vectors.append((envs, load_actor("random", None, envs)))
        pool = stack.enter_context(ThreadPoolExecutor(len(vectors)))

        def play_all(index: int, steps: int) -> list[Rollouts]:
            envs, actor = vectors[index]
            count = options["num_envs"]
            firsts = [(index * _BATCHES + batch) * count for batch in range(_BATCHES)]
            amount = Amount(steps, "steps")
            return [
                play(envs, actor, range(SEED + first, SEED + first + count), amount, first=first)
                for first in firsts
            ]

        def collect(steps: int) -> Rollouts:
            parts = pool.map(play_all, range(len(vectors)), [steps] * len(vectors))
            return merge([part for each in parts for part in each])

        yield collect


KINDS = {"ray": with_ray, "threads": with_threads}


def start(options: dict[str, Any]) -> Generator[Round, None, None]:
    """Make what collects, and yield its rounds."""
    with KINDS[options["kind"]](options) as collect:

        def take_round(steps: int) -> float:
            begin = time.perf_counter()
            result = collect(max(steps // _BATCHES, 1))
            seconds = time.perf_counter() - begin
            assert result.num_steps == options["vectors"] * options["num_envs"] * steps, result
            return seconds

        yield take_round


if __name__ == "__main__":
    serve(start)
