"""One server's connection is cut in the middle of a batch: nothing is lost, nothing done twice."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from openenv_gym import RemoteVectorEnv
from tests.support.cutting import CuttingAddress
from tests.vector.worlds import Fleet


NUM_ENVS = 6
NUM_SERVERS = 3
ROUNDS = 60


class LedgerEnv(gymnasium.Env[Any, Any]):
    """Counts all that is ever done to it, and shows it in every observation."""

    metadata = {"render_modes": ["rgb_array"]}

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.action_space = spaces.Discrete(1000)
        self.observation_space = spaces.Box(0, 1e9, (4,), np.int64)
        self.resets = self.steps = self.calls = self.last = 0
        self.mark = 0

    def _observe(self) -> Any:
        return np.array([self.resets, self.steps, self.calls, self.last])

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.resets += 1
        return self._observe(), {"seed": -1 if seed is None else seed}

    def step(self, action: Any) -> Any:
        self.steps += 1
        self.last = int(action)
        return self._observe(), float(self.steps), False, False, {}

    def tally(self, number: int) -> int:
        self.calls += 1
        return 1000 * self.calls + number

    def render(self) -> Any:
        self.calls += 1
        return np.full((2, 2, 3), self.calls % 256, np.uint8)


class Cutting:
    """An environment over three servers, each of whose connections can be cut."""

    def __init__(self, fleet: Callable[..., Fleet], **kwargs: Any) -> None:
        self.networks: list[CuttingAddress] = []

        def through(server: Any) -> CuttingAddress:
            self.networks.append(CuttingAddress(server.address))
            return self.networks[-1]

        made = fleet(LedgerEnv, NUM_ENVS, NUM_SERVERS, address=through, **kwargs)
        self.env: RemoteVectorEnv = made.env
        self._dice = random.Random(7)

    def arm(self, number: int) -> None:
        """Have one connection cut soon: in a request, in a reply, or between the two."""
        victim = self.networks[number % NUM_SERVERS]
        # Within what a message takes; where it is shorter, the next one is cut.
        if number % 2:
            victim.cut_down = self._dice.randrange(200)
        else:
            victim.cut_up = self._dice.randrange(60)

    @property
    def cuts(self) -> int:
        return sum(network.cuts for network in self.networks)


@pytest.fixture
def cutting(fleet: Callable[..., Fleet]) -> Iterator[Callable[..., Cutting]]:
    made: list[Cutting] = []

    def make(**kwargs: Any) -> Cutting:
        made.append(Cutting(fleet, **kwargs))
        return made[-1]

    yield make
    for each in made:
        each.env.close(terminate=True)
        for network in each.networks:
            network.close()


def rows(resets: int, steps: int, calls: int, last: Any) -> list[list[int]]:
    return [[resets, steps, calls, int(each)] for each in np.broadcast_to(last, NUM_ENVS)]


def test_in_steps(cutting: Callable[..., Cutting]) -> None:
    made = cutting()
    made.env.reset(seed=0)
    for number in range(1, ROUNDS):
        made.arm(number)
        actions = np.arange(NUM_ENVS) + 10 * number
        observations, rewards, *_ = made.env.step(actions)
        assert observations.tolist() == rows(1, number, 0, actions)
        assert rewards.tolist() == [number] * NUM_ENVS
    assert made.cuts > ROUNDS / 2


def test_in_resets(cutting: Callable[..., Cutting]) -> None:
    made = cutting()
    for number in range(1, ROUNDS):
        made.arm(number)
        observations, infos = made.env.reset(seed=number)
        assert observations.tolist() == rows(number, 0, 0, 0)
        assert infos["seed"].tolist() == list(range(number, number + NUM_ENVS))
    assert made.env.np_random_seed == tuple(range(number, number + NUM_ENVS))
    assert made.cuts > ROUNDS / 2


def test_in_resets_of_some(cutting: Callable[..., Cutting]) -> None:
    made = cutting(autoreset_mode="Disabled")
    made.env.reset(seed=0)
    expected = np.ones(NUM_ENVS, int)
    dice = np.random.default_rng(3)
    for number in range(ROUNDS):
        made.arm(number)
        mask = dice.random(NUM_ENVS) < 0.5
        mask[number % NUM_ENVS] = True
        observations, infos = made.env.reset(options={"reset_mask": mask})
        expected[mask] += 1
        assert observations[:, 0].tolist() == expected.tolist()
        assert infos["_seed"].tolist() == mask.tolist()
    assert made.cuts > ROUNDS / 4


@pytest.mark.parametrize("some", [False, True])
def test_in_sends_and_receives(cutting: Callable[..., Cutting], some: bool) -> None:
    made = cutting()
    made.env.reset(seed=0)
    steps = np.zeros(NUM_ENVS, int)
    dice = np.random.default_rng(4)
    for number in range(1, ROUNDS):
        made.arm(number)
        chosen = np.arange(NUM_ENVS)
        if some:
            chosen = dice.permutation(NUM_ENVS)[: dice.integers(1, NUM_ENVS + 1)]
        made.env.send(chosen + 10 * number, chosen)
        received: list[int] = []
        while len(received) < len(chosen):
            batch = made.env.recv()
            received += batch.env_ids.tolist()
            steps[batch.env_ids] += 1
            assert batch.rewards.tolist() == steps[batch.env_ids].tolist()
            assert batch.observations.tolist() == [
                [1, steps[index], 0, index + 10 * number] for index in batch.env_ids
            ]
        assert sorted(received) == sorted(chosen.tolist())
    assert made.cuts > ROUNDS / 4


def test_in_calls(cutting: Callable[..., Cutting]) -> None:
    made = cutting(options={"render_mode": "rgb_array"})
    made.env.reset(seed=0)
    for number in range(1, ROUNDS):
        made.arm(number)
        assert made.env.call("tally", number) == (1000 * (2 * number - 1) + number,) * NUM_ENVS
        made.arm(number + 1)
        frames = made.env.render()
        assert frames is not None
        assert [int(frame[0, 0, 0]) for frame in frames] == [2 * number] * NUM_ENVS
    assert made.env.step(np.zeros(NUM_ENVS, int))[0].tolist() == rows(1, 1, 2 * number, 0)
    assert made.cuts > ROUNDS / 2


def test_in_changes_of_attributes(cutting: Callable[..., Cutting]) -> None:
    made = cutting()
    made.env.reset(seed=0)
    for number in range(ROUNDS):
        made.arm(number)
        values = [number + index for index in range(NUM_ENVS)]
        made.env.set_attr("mark", values)
        assert made.env.get_attr("mark") == tuple(values)
    assert made.cuts > ROUNDS / 2
