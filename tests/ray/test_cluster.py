"""Collections on a cluster of three nodes: ``python3 dev.py ray``."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from openenv_gym import errors
from openenv_gym.providers import DockerProvider, ProcessProvider
from openenv_gym.ray import Collector, Rollouts, collect, merge
from openenv_gym.ray.playing import Amount, load_actor, play
from tests.support.waiting import eventually


pytestmark = [
    pytest.mark.ray,
    pytest.mark.timeout(300),  # nodes and workers are processes that import much
    pytest.mark.skipif(
        importlib.util.find_spec("ray") is None, reason="Ray is missing: python3 dev.py ray"
    ),
    pytest.mark.filterwarnings("default"),  # Ray's own
]

ENV_ID = "openenv/CartPole-v1"
SEED = 7
ROLLOUTS, STEPS = 48, 150
STORE_BYTES = 100_000_000
HERE: dict[str, Any] = {"num_envs": 4, "seed": SEED, "provider": "process"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    os.environ.update(
        RAY_USAGE_STATS_ENABLED="0",
        RAY_AUTH_MODE="token",
        RAY_AUTH_TOKEN=secrets.token_hex(32),  # else Ray writes one into the user's folder
    )
    import ray
    from ray.cluster_utils import Cluster

    made = Cluster(
        initialize_head=True,
        head_node_args={
            "num_cpus": 2,
            "object_store_memory": STORE_BYTES,
            "include_dashboard": False,
        },
    )
    for number in range(2):
        made.add_node(num_cpus=2, object_store_memory=STORE_BYTES, resources={f"n{number}": 9})
    ray.init(address=made.address, log_to_driver=False)
    try:
        yield made
    finally:
        ray.shutdown()
        made.shutdown()


@pytest.fixture(scope="module")
def undisturbed() -> Rollouts:
    """What all collections here must come to, played by one vector environment of this process."""
    envs = gymnasium.make_vec(ENV_ID, num_envs=6, provider="thread")
    try:
        actor = load_actor("random", None, envs)
        return play(envs, actor, range(SEED, SEED + ROLLOUTS), Amount(STEPS, "steps"))
    finally:
        envs.close()


@pytest.fixture
def servers() -> Iterator[tuple[list[str], list[Callable[[], object]]]]:
    """Addresses of three servers that anybody on this machine reaches, and what kills each."""
    with contextlib.ExitStack() as stack:
        urls, kills = [], []
        for _ in range(3):
            process = subprocess.Popen(
                [sys.executable, "-m", "openenv_gym.server", "gymnasium", "--port", "0"],
                stdout=subprocess.PIPE,
                text=True,
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            assert process.stdout is not None
            urls.append(process.stdout.readline().split()[-1])
            kills.append(process.kill)
        yield urls, kills


def assert_equal(one: Rollouts, other: Rollouts) -> None:
    assert one.num_steps == other.num_steps == ROLLOUTS * STEPS
    for name in ("observations", "actions", "rewards", "rollout", "seed", "length"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name


@pytest.mark.parametrize("num_workers", [1, 3])
def test_the_result_is_the_same_with_any_number_of_workers(
    cluster: Any, undisturbed: Rollouts, num_workers: int
) -> None:
    with Collector(
        ENV_ID, rollouts=ROLLOUTS, steps=STEPS, num_workers=num_workers, **HERE
    ) as collector:
        assert_equal(collector.collect(), undisturbed)
        assert collector.losses == 0
        assert 1 <= len(collector.workers) <= num_workers


def _need_image() -> None:
    from openenv_gym.providers.docker.daemon import connect_daemon
    from openenv_gym.providers.docker.images import ensure_image

    try:
        ensure_image(connect_daemon(), "gymnasium", build="never")
    except errors.ImageError as error:
        pytest.skip(f"python3 dev.py images gymnasium: {error}")


def _containers() -> DockerProvider:
    return DockerProvider(build="never")


@pytest.mark.parametrize(
    "provider",
    [
        "thread",
        ProcessProvider(workers=2),
        pytest.param(_containers, marks=pytest.mark.container),
    ],
    ids=["thread", "process", "docker"],
)
def test_servers_may_run_anywhere(cluster: Any, undisturbed: Rollouts, provider: Any) -> None:
    if provider is _containers:
        _need_image()
    options = {**HERE, "provider": provider}
    result = collect(ENV_ID, rollouts=ROLLOUTS, steps=STEPS, num_workers=2, **options)
    assert_equal(result, undisturbed)


def test_a_worker_killed_in_mid_collection_changes_nothing(
    cluster: Any, undisturbed: Rollouts
) -> None:
    with Collector(
        ENV_ID, rollouts=ROLLOUTS, steps=STEPS, num_workers=3, max_ahead=4, **HERE
    ) as collector:
        batches, killed = [], []
        for batch in collector:
            batches.append(batch)
            there = {facts["pid"] for facts in collector.workers.values()} - {*killed}
            if len(batches) >= 2 and there and len(killed) < 2:
                killed.append(there.pop())
                os.kill(killed[-1], signal.SIGKILL)
        assert collector.losses == 2
        assert collector.missing == []
    assert len(batches) == ROLLOUTS // 4
    assert_equal(merge(batches), undisturbed)


def test_a_server_killed_in_mid_collection_changes_nothing(
    cluster: Any, undisturbed: Rollouts, servers: Any
) -> None:
    urls, kills = servers
    options = {**HERE, "provider": None, "servers": urls, "wait_s": 5.0}
    with Collector(
        ENV_ID, rollouts=ROLLOUTS, steps=STEPS, num_workers=3, max_ahead=4, **options
    ) as collector:
        batches = []
        for batch in collector:
            batches.append(batch)
            if len(batches) == 2:
                kills[0]()
        assert collector.losses >= 1
    assert_equal(merge(batches), undisturbed)


def test_a_node_that_goes_changes_nothing(cluster: Any, undisturbed: Rollouts) -> None:
    node = cluster.add_node(num_cpus=2, object_store_memory=STORE_BYTES, resources={"extra": 2})
    options = {**HERE, "worker_options": {"num_cpus": 1, "scheduling_strategy": "SPREAD"}}
    with Collector(
        ENV_ID, rollouts=ROLLOUTS, steps=STEPS, num_workers=6, max_ahead=6, **options
    ) as collector:
        batches = []
        for batch in collector:
            batches.append(batch)
            if len(batches) == 4:
                cluster.remove_node(node, allow_graceful=False)
    assert_equal(merge(batches), undisturbed)


def test_what_is_missing_is_named_when_all_servers_are_gone(cluster: Any, servers: Any) -> None:
    urls, kills = servers
    options = {**HERE, "provider": None, "servers": urls, "wait_s": 1.0, "attempts": 2}
    with Collector(
        ENV_ID, rollouts=ROLLOUTS, steps=STEPS, num_workers=2, max_ahead=2, **options
    ) as collector:
        batches = []
        with pytest.raises(errors.RolloutsMissingError) as caught:
            for batch in collector:
                batches.append(batch)
                if len(batches) == 2:
                    for kill in kills:
                        kill()
    there = {int(rollout) for batch in batches for rollout in batch.rollout}
    named = [
        set(range(each["rollouts"][0], each["rollouts"][1] + 1))
        for each in caught.value.data["missing"]
    ]
    assert there.isdisjoint(set().union(*named))
    assert there | set().union(*named) == set(range(ROLLOUTS))
    for each in collector.missing:
        assert each.seeds == (SEED + each.rollouts[0], SEED + each.rollouts[1])
        assert str(each) in str(caught.value) or len(collector.missing) > 10
    assert any(each.reasons and each.worker is not None for each in collector.missing)


def test_a_policy_that_raises_is_named_and_nothing_else_is_missing(cluster: Any) -> None:
    bad = SEED + 9
    first, _ = gymnasium.make("CartPole-v1").reset(seed=bad)

    def act(observations: Any) -> Any:
        if (observations == first).all(axis=1).any():
            raise ZeroDivisionError("not with me")
        return np.zeros(len(observations), np.int64)

    options = {**HERE, "policy": act, "rollouts": ROLLOUTS, "steps": 20, "num_workers": 2}
    with (
        Collector(ENV_ID, **options) as collector,
        pytest.raises(
            errors.RolloutsMissingError,
            match=r"seeds 15 to 18\): worker \d+: ZeroDivisionError: not",
        ) as caught,
    ):
        collector.collect()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    with Collector(ENV_ID, allow_missing=True, **options) as collector:
        result = collector.collect()
    assert [each.rollouts for each in collector.missing] == [(8, 11)]
    assert set(result.rollout) == set(range(ROLLOUTS)) - {8, 9, 10, 11}


def test_weights_are_an_object_that_all_workers_fetch(cluster: Any) -> None:
    import ray

    def policy(weights: Any) -> Callable[[Any], Any]:
        return lambda observations: (observations @ weights > 0).astype(np.int64)

    options = {**HERE, "rollouts": 8, "steps": 30, "num_workers": 2}
    weights = ray.put(np.zeros(4, np.float32))
    with Collector(ENV_ID, policy=policy, weights=weights, **options) as collector:
        assert not collector.collect().actions.any()
        assert collector.collect(weights=np.array([0, 0, 1, 1], np.float32)).actions.any()
        again = collector.collect()
        assert again.actions.any()
        assert set(collector.collect(seed=100).seed) == set(range(100, 108))


def test_an_iteration_that_is_left_leaves_nothing_to_the_next(
    cluster: Any, undisturbed: Rollouts
) -> None:
    with Collector(ENV_ID, rollouts=ROLLOUTS, steps=STEPS, num_workers=2, **HERE) as collector:
        left = collector.batches(seed=1000)
        next(left)
        assert_equal(collector.collect(), undisturbed)
        with pytest.raises(errors.SessionClosedError, match="Another collection"):
            next(left)
        assert collector.losses == 0


def test_what_cannot_be_made_says_so(cluster: Any) -> None:
    with pytest.raises(errors.EnvironmentFailedError, match="no_such_option"):
        collect(ENV_ID, steps=1, no_such_option=1, **HERE)
    with pytest.raises(
        errors.RolloutsMissingError, match="No worker has environments.*Unreachable"
    ):
        collect(ENV_ID, steps=1, num_envs=2, rollouts=2, servers=["http://127.0.0.1:9"])


@pytest.mark.parametrize("number", [0, 1])
def test_code_on_the_page_runs(cluster: Any, tmp_path: Path, number: int) -> None:
    page = Path(__file__).parents[2] / "docs" / "ray.md"
    blocks = re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)
    assert len(blocks) == 2
    script = tmp_path / "block.py"
    script.write_text(blocks[number])
    environment = {**os.environ, "RAY_ADDRESS": cluster.address}
    subprocess.run([sys.executable, str(script)], env=environment, timeout=200, check=True)


SCRIPT = """
import os
import ray
from openenv_gym.ray import Collector

if __name__ == "__main__":
    mark = {"env_vars": {"OPENENV_TEST_MARK": os.environ["OPENENV_TEST_MARK"]}}
    ray.init(runtime_env=mark, log_to_driver=False)
    with Collector(
        "openenv/CartPole-v1", num_envs=4, rollouts=10_000, steps=200, num_workers=2,
        provider="process", max_ahead=4,
    ) as collector:
        for number, batch in enumerate(collector):
            if number == 3:
                print(*(facts["pid"] for facts in collector.workers.values()), flush=True)
"""


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL], ids=lambda sent: sent.name)
def test_nothing_is_left_of_a_driver_that_ends(cluster: Any, tmp_path: Path, sent: int) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    mark = secrets.token_hex(16)
    environment = {
        **os.environ,
        "RAY_ADDRESS": cluster.address,
        "PYTHONPATH": os.getcwd(),
        "OPENENV_TEST_MARK": mark,
    }
    with subprocess.Popen(
        [sys.executable, str(script)], env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        workers = {int(pid) for pid in process.stdout.readline().split()}
        assert workers
        # Servers, and the guardian that would end them, beside the driver and the workers.
        assert len(_marked(mark) - workers - {process.pid}) >= 2
        process.send_signal(sent)
        process.wait(timeout=60)
    assert process.returncode != 0
    assert eventually(lambda: not _marked(mark), 60), _marked(mark)


def _marked(mark: str) -> set[int]:
    """Return the processes that have a mark among their variables."""
    found = set()
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            with contextlib.suppress(OSError):
                if mark.encode() in (place / "environ").read_bytes():
                    found.add(int(place.name))
    return found
