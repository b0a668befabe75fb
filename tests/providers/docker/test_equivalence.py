"""Everything that holds for a server in a process holds for one in a container."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_match import check_environments_match
from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation

import openenv_gym  # noqa: F401  # registers the ids
from openenv_gym.client import Connection
from openenv_gym.providers import DockerProvider, ServerTarget
from openenv_gym.providers.docker import DockerServer
from tests.env.test_equivalence import PAIRS, assert_same_generator, remote, warned
from tests.support.cutting import CuttingAddress
from tests.support.images import image


pytestmark = pytest.mark.container

ale_py = pytest.importorskip("ale_py")
gymnasium.register_envs(ale_py)


@pytest.fixture(autouse=True)
def _prepared(docker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("echo_env", "atari_env", "gymnasium"):
        image(package)
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setenv("SDL_AUDIODRIVER", "dummy")


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_the_checker_finds_nothing_that_it_does_not_find_locally(pair: Any) -> None:
    name, kwargs, local_id, local_kwargs = pair
    here = warned(lambda: gymnasium.make(local_id, **local_kwargs))
    assert warned(lambda: remote(name, "docker", **kwargs)) <= here


@pytest.mark.parametrize(
    ("name", "kwargs"), [("Echo-v0", {}), ("Atari-v0", {"game": "pong", "preprocess": True})]
)
def test_the_checker_finds_nothing_in_our_own(name: str, kwargs: dict[str, Any]) -> None:
    assert warned(lambda: remote(name, "docker", **kwargs)) == set()


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_a_thousand_steps_match_with_three_seeds(pair: Any) -> None:
    name, kwargs, local_id, local_kwargs = pair
    there = remote(name, "docker", **kwargs)
    here = gymnasium.make(local_id, **local_kwargs)
    for seed in (0, 7, 123):
        check_environments_match(there, here, num_steps=1000, seed=seed)
        assert_same_generator(there, here)
    there.close()
    here.close()


def test_atari_preprocessing_equals_the_local_one() -> None:
    local, far = (
        FrameStackObservation(AtariPreprocessing(env, noop_max=30), 4)
        for env in (
            gymnasium.make("ALE/Breakout-v5", frameskip=1),
            gymnasium.make("openenv/Atari-v0", game="breakout", frameskip=1, provider="docker"),
        )
    )
    far.action_space.seed(0)
    assert (local.reset(seed=3)[0] == far.reset(seed=3)[0]).all()
    for _ in range(300):
        action = far.action_space.sample()
        here, there = local.step(action), far.step(action)
        assert (here[0] == there[0]).all()
        assert here[1:] == there[1:]
        if here[2] or here[3]:
            assert (local.reset()[0] == far.reset()[0]).all()
    local.close()
    far.close()


# -- cut connections ------------------------------------------------------------------------------


@pytest.fixture
def counting(counting_image: str) -> Iterator[DockerServer]:
    provider = DockerProvider(image=counting_image, build="never")
    server = provider.start(ServerTarget("worlds:CountingEnv"))
    assert isinstance(server, DockerServer)
    yield server
    server.stop()


@pytest.mark.parametrize("reach", ["up", "down"])
def test_a_cut_connection_loses_no_step_and_repeats_none(
    counting: DockerServer, reach: str
) -> None:
    network = CuttingAddress(counting.address)
    options = {"payload_bytes": 50_000}
    connection = Connection(network, options, why_lost=counting.why_lost, connect_timeout_s=60)
    connection.call("reset", [None, None])
    rng = np.random.default_rng(1)
    for number in range(1, 60):
        # Inside a frame, before it, behind it, in the handshake of the resume.
        setattr(network, f"cut_{reach}", int(rng.integers(0, 60_000 if reach == "down" else 60)))
        observation = connection.call("step", [number]).value[0]
        assert observation["count"].tolist() == [number, 1, number]
    assert network.cuts > 10
    connection.close()
    network.close()


def test_a_cut_during_a_reset_and_a_long_step(counting: DockerServer) -> None:
    network = CuttingAddress(counting.address)
    slow = {"step_s": 0.3, "reset_s": 0.3}
    connection = Connection(network, slow, why_lost=counting.why_lost, connect_timeout_s=60)
    network.cut_down = 0
    assert connection.call("reset", [None, None]).value[0]["count"].tolist() == [0, 1, 0]
    network.cut_down = 0
    assert connection.call("step", [5]).value[0]["count"].tolist() == [1, 1, 5]
    connection.close()
    network.close()
