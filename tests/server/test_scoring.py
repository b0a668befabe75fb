"""Rewards by an environment's rubric, as every kind of client gets them."""

import asyncio
import contextlib
import json
import math
import threading

import gymnasium
import numpy as np
import pytest
from pydantic import Field

import openenv_gym  # noqa: F401
from openenv_gym import errors
from openenv_gym.models import Action, CallToolAction, CallToolObservation, Observation, State
from openenv_gym.openenv import GenericEnvClient
from openenv_gym.rubrics import (
    ExponentialDiscountingTrajectoryRubric,
    Rubric,
    Sequential,
    WeightedSum,
    load_rubric,
)
from openenv_gym.rubrics.loop import background
from openenv_gym.server import Environment, MCPEnvironment, ToolResultText, scoring, tool
from openenv_gym.server.host import EnvironmentHost
from tests.support.serving import serving


class Add(Action):
    number: int = Field(ge=-9, le=9)


class Total(Observation):
    total: int = Field(ge=-90, le=90)


class Adding(Environment[Add, Total, State]):
    """A total of numbers, of which -9 is the last; what it gives itself is the number."""

    action_model = Add
    observation_model = Total

    def __init__(self, *, rubric=None, steps=3):
        self.rubric = load_rubric(rubric)
        self.steps = steps
        self.info = {"kept": 1}

    def reset(self, *, seed=None, options=None):
        self.begin_episode(seed)
        self.total = 0
        return Total(total=0)

    def step(self, action):
        self.total += action.number
        return Total(
            total=self.total,
            reward=action.number,
            done=self.count_step() == self.steps or action.number == -9,
            metadata=self.info,
        )

    def save_state(self):
        return [self.total, self._step_count]

    def restore_state(self, saved):
        self.total, self._step_count = saved


class Own(Rubric):
    """The environment's own reward."""

    def forward(self, action, observation):
        return observation.reward


class Even(Rubric):
    """Whether the total is even; asynchronously, and not for 9."""

    async def forward(self, action, observation):
        await asyncio.sleep(0)
        if action.number == 9:
            raise ValueError("9 is not for me")
        return float(observation.total % 2 == 0)


class Final(ExponentialDiscountingTrajectoryRubric):
    """The last total."""

    def score_trajectory(self, trajectory):
        return trajectory[-1][1].total


def make_mixed() -> Rubric:
    return WeightedSum({"own": Sequential(Own(), even=Even()), "even": Even()}, [0.5, 0.5])


def make_final() -> Rubric:
    return Final(gamma=0.5, intermediate_reward=0.125)


HERE = "tests.server.test_scoring"


@pytest.fixture(scope="module")
def url():
    with serving(Adding, capacity=32) as address:
        yield address


def remote(url, **options):
    return gymnasium.make(
        "openenv/Remote-v0", base_url=url, disable_env_checker=True, **options
    ).unwrapped


def test_a_step_has_the_rubrics_reward_and_the_scores_of_its_parts(url):
    env = remote(url, rubric=f"{HERE}:make_mixed")
    _, info = env.reset(seed=1)
    assert info == {}
    observation, reward, terminated, truncated, info = env.step(2)
    assert (observation, reward, terminated, truncated) == (2, 1.0, False, False)
    scores = {"own": 1.0, "own.rubric_0": 2.0, "own.even": 1.0, "even": 1.0}
    assert info == {"kept": 1, "reward_components": scores}
    _, reward, _, _, info = env.step(0)
    assert reward == 0.5 and info["reward_components"].keys() == scores.keys()
    assert info["reward_components"]["own"] == 0.0
    assert math.isnan(info["reward_components"]["own.even"])  # it did not run
    env.close()


def test_without_a_rubric_the_environment_says_what_a_step_is_worth(url):
    env = remote(url)
    env.reset()
    assert env.step(2)[1:] == (2, False, False, {"kept": 1})
    env.close()


def test_a_trajectory_is_scored_with_its_last_step_and_each_step_gets_its_credit(url):
    env = remote(url, rubric=f"{HERE}:make_final")
    for _ in range(2):
        env.reset()
        for number in (1, 2):
            _, reward, _, _, info = env.step(number)
            assert reward == 0.125 and "step_rewards" not in info
        _, reward, terminated, _, info = env.step(1)
        assert (reward, terminated) == (4.0, True)
        assert info["step_rewards"].dtype == np.float64
        assert info["step_rewards"].tolist() == [1.0, 2.0, 4.0]
        assert info["reward_components"] == {}
    env.close()


def test_a_state_that_is_restored_begins_a_trajectory_anew():
    host = EnvironmentHost(Adding(rubric=make_final()))
    host.execute("reset", [None, None])
    host.execute("step", [1])
    saved = host.execute("save_state", [])[0]
    host.execute("step", [2])
    host.execute("restore_state", [saved])
    host.execute("step", [3])
    (_, reward, _, _, info), _ = host.execute("step", [4])
    assert reward == 8.0 and info["step_rewards"].tolist() == [4.0, 8.0]


def test_an_error_names_the_rubric_and_the_session_goes_on(url):
    env = remote(url, rubric=f"{HERE}:make_mixed")
    env.reset()
    with pytest.raises(errors.RubricError, match=r"'own\.even' .*ValueError: 9 is not") as caught:
        env.step(9)
    assert caught.value.field == "own.even" and caught.value.type_name == "ValueError"
    assert isinstance(caught.value, errors.EnvironmentFailedError)
    assert env.step(1)[1] == 1.0
    env.close()


@pytest.mark.parametrize("spec", ["no.such:thing", 3, f"{HERE}:Adding"])
def test_a_rubric_that_there_is_not_is_refused(url, spec):
    with pytest.raises(errors.InvalidOptionError, match="rubric") as caught:
        remote(url, rubric=spec)
    assert caught.value.field == "rubric"


class Endless(Rubric):
    timeout_s = 0.05

    async def forward(self, action, observation):
        await asyncio.sleep(60)


class Deaf(Endless):
    """Does not mind being cancelled."""

    over = asyncio.Event()

    async def forward(self, action, observation):
        while not self.over.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await self.over.wait()


class Blocking(Endless):
    """Holds up the loop."""

    over = threading.Event()

    async def forward(self, action, observation):
        self.over.wait(20)


@pytest.mark.parametrize("kind", [Endless, Deaf, Blocking])
def test_a_rubric_that_takes_too_long_is_given_up(kind, monkeypatch):
    monkeypatch.setattr(scoring, "_CANCEL_S", 0.05)
    host = EnvironmentHost(Adding(rubric=kind()))
    host.execute("reset", [None, None])
    try:
        with pytest.raises(
            errors.RubricError, match=rf"'rubric' \({kind.__name__}\).*longer than 0.05 s"
        ):
            host.execute("step", [1])
    finally:
        if kind is Blocking:
            kind.over.set()
        if kind is Deaf:
            background.run(_set(kind.over))
    host = EnvironmentHost(Adding(rubric=Even()))
    host.execute("reset", [None, None])
    assert host.execute("step", [2])[0][1] == 1.0  # the loop is there for others


async def _set(event):
    event.set()
    await asyncio.sleep(0.01)


def test_a_rubric_that_cannot_forget_says_so():
    class Stubborn(Own):
        def reset(self):
            raise RuntimeError("I remember")

    host = EnvironmentHost(Adding(rubric=Sequential(Stubborn())))
    with pytest.raises(errors.RubricError, match="I remember"):
        host.execute("reset", [None, None])


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
@pytest.mark.parametrize("num_servers", [1, 2])
def test_sub_environments_have_rubrics_of_their_own(url, mode, num_servers):
    envs = gymnasium.make_vec(
        "openenv/Remote-v0",
        num_envs=3,
        base_url=[url] * num_servers,
        rubric=f"{HERE}:make_final",
        steps=4,
        autoreset_mode=mode,
    )
    envs.reset()
    for actions in ([1, 1, -9], [1, 1, 0], [2, 3, 1]):
        envs.step(np.array(actions))
    _, rewards, terminations, _, infos = envs.step(np.array([1, 2, -9]))
    assert terminations.all()
    assert rewards.tolist() == [5, 7, -8]
    if mode == "SameStep":
        infos = infos["final_info"]
    first, second, third = infos["step_rewards"]
    assert first.tolist() == [0.625, 1.25, 2.5, 5] and second.tolist() == [0.875, 1.75, 3.5, 7]
    last = [-4, -8] if mode == "NextStep" else [-2, -4, -8]  # one step less: it only reset
    assert third.tolist() == last and third.dtype == np.float64
    envs.close()


class Together(Rubric):
    """Has no score before three steps wait for one."""

    waiting = 0

    async def forward(self, action, observation):
        Together.waiting += 1
        while Together.waiting < 3:
            await asyncio.sleep(0.001)
        return 1.0


def test_sub_environments_wait_for_scores_together(url):
    envs = gymnasium.make_vec(
        "openenv/Remote-v0", num_envs=3, base_url=url, rubric=f"{HERE}:Together"
    )
    envs.reset()
    assert envs.step(np.array([1, 2, 3]))[1].tolist() == [1, 1, 1]
    envs.close()


def test_scores_of_sub_environments_are_arrays(url):
    envs = gymnasium.make_vec(
        "openenv/Remote-v0", num_envs=3, base_url=url, rubric=f"{HERE}:make_mixed"
    )
    envs.reset()
    _, rewards, _, _, infos = envs.step(np.array([1, 2, 0]))
    assert rewards.tolist() == [0.0, 1.0, 0.5]
    scores = infos["reward_components"]
    assert scores["even"].tolist() == [0.0, 1.0, 1.0] and scores["_even"].all()
    np.testing.assert_array_equal(scores["own.even"], [0.0, 1.0, np.nan])
    envs.close()


def test_a_typed_client_gets_the_same(url):
    with GenericEnvClient(base_url=url, options={"rubric": f"{HERE}:make_mixed"}).sync() as client:
        assert client.reset().reward is None
        result = client.step({"number": 2})
        assert result.reward == 1.0 and result.metadata["reward_components"]["even"] == 1.0


def test_openenvs_json_has_the_same():
    host = EnvironmentHost(Adding(rubric=make_mixed(), steps=1))
    host.execute("json_reset", [{}])
    told = json.loads(host.execute("json_step", [{"number": 0}])[0])
    assert told["reward"] == 0.5 and told["done"] is True
    scores = told["observation"]["metadata"]["reward_components"]
    assert scores == {"own": 0.0, "own.rubric_0": 0.0, "own.even": None, "even": 1.0}


# -- tools -----------------------------------------------------------------------------------------


class Polite(Rubric):
    """Looks at calls of tools and their results; nothing else may arrive here."""

    def forward(self, action, observation):
        assert isinstance(action, CallToolAction) and isinstance(observation, CallToolObservation)
        return -1.0 if observation.error else float(len(observation.result))


class Talking(MCPEnvironment):
    def __init__(self):
        self.rubric = Sequential(polite=Polite())

    def reset(self, *, seed=None, options=None):
        self.begin_episode(seed)
        return ToolResultText(text="hello")

    @tool
    def say(self, word: str) -> str:
        """Say a word."""
        return word


def test_calls_of_tools_are_scored_and_lists_of_them_are_not():
    host = EnvironmentHost(Talking())
    host.execute("reset", [None, None])
    text = json.dumps({"tool_name": "say", "arguments": {"word": "four"}})
    (seen, reward, _, _, info), _ = host.execute("step", [text])
    assert (seen, reward) == ("four", 4.0)
    assert info["reward_components"] == {"polite": 4.0}
    call = {"type": "call_tool", "tool_name": "say", "arguments": {"word": "ox"}}
    _, reward, _, _, info = host.execute("step_typed", [call])[0]
    assert (reward, info["reward_components"]) == (2.0, {"polite": 2.0})
    assert host.execute("step_typed", [{**call, "tool_name": "sing"}])[0][1] == -1.0
    _, reward, _, _, info = host.execute("step_typed", [{"type": "list_tools"}])[0]
    assert (reward, info) == (None, {})
