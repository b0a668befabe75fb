"""The echo environment: models, spaces, rewards, ends."""

from __future__ import annotations

import pytest
from gymnasium.utils.env_checker import env_render_passive_checker
from pydantic import ValidationError

from echo_env import EchoEnv
from echo_env.models import MAX_MESSAGE_LENGTH, EchoAction
from echo_env.server.app import app
from echo_env.server.echo_environment import GREETING, EchoEnvironment
from openenv_gym.errors import InvalidOptionError
from openenv_gym.models import CallToolAction, CallToolObservation, ListToolsAction
from openenv_gym.server.adapter import TypedEnv


def make(**options) -> TypedEnv:
    return TypedEnv(EchoEnvironment(**options))


def test_spaces_are_those_of_the_readme():
    env = make()
    assert env.action_space.max_length == MAX_MESSAGE_LENGTH
    assert env.action_space.min_length == 0
    assert list(env.observation_space.spaces) == ["echoed_message", "message_length"]
    assert env.observation_space["message_length"].n == MAX_MESSAGE_LENGTH + 1


def test_reset_greets():
    observation, info = make().reset(seed=0)
    assert observation == {"echoed_message": GREETING, "message_length": len(GREETING)}
    assert info == {}


@pytest.mark.parametrize(
    "options", [{"nonsense": 1}, {1: 2}, ["nonsense"], "nonsense", 3], ids=repr
)
def test_reset_takes_no_options(options):
    with pytest.raises(InvalidOptionError, match="options|there are none") as caught:
        EchoEnvironment().reset(options=options)
    assert caught.value.field == "options"


def test_known_options_are_named_where_another_is_refused():
    environment = EchoEnvironment()
    environment.check_reset_options({"level": 1}, "level", "start")
    with pytest.raises(InvalidOptionError, match="'levle' of reset; there are level, start"):
        environment.check_reset_options({"level": 1, "levle": 1}, "level", "start")


@pytest.mark.parametrize("protocol", ["binary", "json"])
def test_a_typed_client_names_its_episodes_and_is_told_of_odd_options(protocol):
    with EchoEnv.from_env("echo_env", provider="thread", protocol=protocol).sync() as client:
        client.reset(seed=1, episode_id="mine", options={})
        assert client.state().episode_id == "mine"
        with pytest.raises(InvalidOptionError, match="'nonsense' of reset; there are none"):
            client.reset(options={"nonsense": 1})
        client.reset(episode_id="yours")
        assert client.state().episode_id == "yours"


@pytest.mark.parametrize(
    ("message", "reward"),
    [("", 0.0), ("a", 0.1), ("hello", 0.5), ("0123456789", 1.0), ("x" * MAX_MESSAGE_LENGTH, 1.0)],
    ids=["empty", "one", "five", "ten", "longest"],
)
def test_step_echoes(message, reward):
    env = make()
    env.reset()
    observation, got, terminated, truncated, info = env.step(message)
    assert observation == {"echoed_message": message, "message_length": len(message)}
    assert observation in env.observation_space
    assert (got, type(got)) == (reward, float)
    assert (terminated, truncated, info) == (False, False, {})


def test_a_message_that_is_too_long_is_refused():
    with pytest.raises(ValidationError, match="4096"):
        EchoAction(message="x" * (MAX_MESSAGE_LENGTH + 1))


def test_the_model_takes_any_text():
    environment = EchoEnvironment()
    environment.reset()
    observation = environment.step(EchoAction(message="Grüße 👋"))
    assert (observation.echoed_message, observation.message_length) == ("Grüße 👋", 7)


def test_episode_length_truncates():
    env = make(episode_length=2)
    for _ in range(2):
        env.reset()
        assert env.step("a")[2:4] == (False, False)
        assert env.step("a")[2:4] == (False, True)


def test_state_counts_steps():
    environment = EchoEnvironment()
    environment.reset()
    first = environment.state.episode_id
    environment.step(EchoAction(message="a"))
    assert environment.state.step_count == 1
    environment.reset()
    assert environment.state.step_count == 0
    assert environment.state.episode_id not in (None, first)


def test_render():
    env = make(render_mode="ansi")
    env.reset()
    assert env.render() == GREETING
    env.step("hello")
    assert env.render() == "hello"
    env_render_passive_checker(env)
    silent = make()
    silent.reset()
    assert silent.render() is None


def test_save_and_restore():
    environment = EchoEnvironment(episode_length=2, render_mode="ansi")
    environment.reset()
    environment.step(EchoAction(message="a"))
    saved, state = environment.save_state(), environment.state
    assert environment.step(EchoAction(message="b")).truncated
    environment.restore_state(saved)
    assert environment.render() == "a"
    assert environment.state == state
    assert environment.step(EchoAction(message="b")).truncated


def test_tools_echo():
    environment = EchoEnvironment(episode_length=3, render_mode="ansi")
    assert environment.reset().echoed_message == "Echo environment ready!"
    names = [each.name for each in environment.step(ListToolsAction()).tools]
    assert names == ["echo_message", "echo_with_length"]
    first = environment.step(
        CallToolAction(tool_name="echo_message", arguments={"message": "Hello, World!"})
    )
    assert isinstance(first, CallToolObservation)
    assert (first.result, first.error, first.reward) == ("Hello, World!", None, None)
    assert environment.render() == "Hello, World!"
    second = environment.step(
        CallToolAction(tool_name="echo_with_length", arguments={"message": "ä👋"})
    )
    assert second.result == {"message": "ä👋", "length": 2}
    assert not second.truncated
    wrong = environment.step(CallToolAction(tool_name="echo_message", arguments={"text": "a"}))
    assert wrong.error.error_type.value == "invalid_args"
    assert (wrong.done, wrong.truncated) == (True, True)
    environment.close()


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"episode_length": 0}, "episode_length"),
        ({"episode_length": True}, "episode_length"),
        ({"episode_length": "3"}, "episode_length"),
        ({"render_mode": "rgb_array"}, "render_mode"),
    ],
)
def test_wrong_options(options, field):
    with pytest.raises(InvalidOptionError, match=field) as caught:
        EchoEnvironment(**options)
    assert caught.value.field == field


def test_app_makes_environments():
    host = app.open({"episode_length": 1})
    host.execute("reset", [])
    value, _ = host.execute("step", ["hi"])
    assert value == [{"echoed_message": "hi", "message_length": 2}, 0.2, False, True, {}]
    host.close()
