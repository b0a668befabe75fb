"""Typed operations, asked for as the binary protocol does."""

from enum import Enum
from typing import Annotated, Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.spaces import GraphInstance
from pydantic import BaseModel

from openenv_gym import errors
from openenv_gym.models import Action, Array, Observation
from openenv_gym.protocol.codec import decode_packet, encode_packet
from openenv_gym.server import Environment
from openenv_gym.server.host import EnvironmentHost


class Colour(Enum):
    RED = "red"


class Place(BaseModel):
    x: int
    colour: Colour = Colour.RED


class Go(Action):
    to: Place


class Seen(Observation):
    place: Place
    picture: Annotated[np.ndarray, Array(shape=(2,), dtype="uint8")]


class Walking(Environment[Go, Seen, Any]):
    action_model = Go
    observation_model = Seen

    def reset(self, *, seed=None, options=None, size: int = 1):
        self.begin_episode(seed)
        return Seen(place=Place(x=size), picture=np.zeros(2, np.uint8), metadata={"size": size})

    def step(self, action: Go):
        self.count_step()
        over = action.to.x > 9
        picture = np.full(2, action.to.x, np.uint8)
        return Seen(place=action.to, picture=picture, reward=2, done=over, truncated=over)


class Graphs(gymnasium.Env):
    action_space = spaces.Discrete(2)
    observation_space = spaces.Graph(spaces.Discrete(3), None)

    def reset(self, *, seed=None, options=None):
        return GraphInstance(np.array([1]), None, None), {}

    def step(self, action):
        return GraphInstance(np.array([2]), None, None), 1.0, False, False, {}


def over_the_wire(value):
    packet = b"".join(bytes(part) for part in encode_packet([value]))
    return decode_packet(memoryview(packet))[0]


def ask(host, op, *args):
    return over_the_wire(host.execute(op, list(args))[0])


def test_models_travel_as_maps_with_arrays_as_arrays():
    host = EnvironmentHost(Walking())
    observation, reward, done, truncated, metadata = ask(host, "reset_typed", {"seed": 1})
    assert observation["place"] == {"x": 1, "colour": "red"}
    assert (reward, done, truncated, metadata) == (None, False, False, {"size": 1})
    observation, reward, done, truncated, _ = ask(host, "step_typed", {"to": {"x": 10}})
    assert observation["picture"].dtype == np.uint8 and observation["picture"].tolist() == [10, 10]
    assert (reward, done, truncated) == (2, True, True)


def test_what_reset_takes_is_passed_on_and_the_rest_refused():
    host = EnvironmentHost(Walking())
    reply = ask(host, "reset_typed", {"seed": 3, "size": 4, "episode_id": "mine"})
    assert reply[0]["place"]["x"] == 4
    assert ask(host, "state") == {"episode_id": "mine", "step_count": 0}
    with pytest.raises(errors.InvalidOptionError, match="does not take 'colour'"):
        host.execute("reset_typed", [{"colour": 1}])
    for seed in (-1, 1.5, True, "1"):
        with pytest.raises(errors.InvalidOptionError, match="seed="):
            host.execute("reset_typed", [{"seed": seed}])


def test_an_action_that_the_model_refuses_is_named():
    host = EnvironmentHost(Walking())
    with pytest.raises(errors.ResetNeededError):
        host.execute("step_typed", [{"to": {"x": 1}}])
    ask(host, "reset_typed", {})
    with pytest.raises(errors.InvalidActionError, match="to.x: Input should be") as caught:
        host.execute("step_typed", [{"to": {"x": "far"}}])
    assert caught.value.field == "to.x" and caught.value.data["errors"][0]["loc"] == ["to", "x"]
    with pytest.raises(errors.ProtocolError):
        host.execute("step_typed", [3])
    assert ask(host, "step_typed", {"to": {"x": 2}})[0]["place"]["x"] == 2


def test_a_graph_stays_a_graph():
    host = EnvironmentHost(Graphs())
    assert isinstance(ask(host, "reset_typed", {})[0]["observation"], GraphInstance)
    observation = ask(host, "step_typed", {"action": 1})[0]["observation"]
    assert isinstance(observation, GraphInstance) and observation.nodes.tolist() == [2]


def test_the_time_limit_of_a_hosted_environment_is_applied_here():
    env = gymnasium.make("CartPole-v1", max_episode_steps=-1, disable_env_checker=True)
    vars(env)["openenv_time_limit"] = 3
    host = EnvironmentHost(env)
    ask(host, "reset_typed", {"seed": 0})
    ends = [ask(host, "step_typed", {"action": step % 2})[2:4] for step in range(3)]
    assert ends == [[False, False], [False, False], [True, True]]
    ask(host, "reset_typed", {"seed": 0})
    assert ask(host, "step_typed", {"action": 0})[2:4] == [False, False]
    with pytest.raises(errors.InvalidActionError):
        host.execute("step_typed", [{"action": 2}])
