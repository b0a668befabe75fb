"""Untrusted environments, and servers that are shared."""

from __future__ import annotations

import dataclasses
from typing import Any

import gymnasium
import numpy as np
import pytest

import openenv_gym
from openenv_gym import errors
from openenv_gym.providers.thread import ThreadProvider
from openenv_gym.registration import lookup
from openenv_gym.registration.make import make_env
from openenv_gym.registration.shared import SharedServer
from openenv_gym.registration.starting import start


UNTRUSTED = dataclasses.replace(lookup("openenv/Echo-v0"), untrusted=True)


@pytest.mark.parametrize("provider", ["process", "thread", ThreadProvider()])
def test_untrusted_code_is_refused_where_nothing_contains_it(provider: Any) -> None:
    with pytest.raises(errors.IsolationError, match="contains nothing of what that code does"):
        make_env(UNTRUSTED, provider=provider)


def test_untrusted_code_is_refused_where_no_container_can_be_had(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody")
    with pytest.raises(errors.IsolationError, match="no container can be had"):
        make_env(UNTRUSTED, provider="auto")


def test_untrusted_code_runs_where_the_user_says_so() -> None:
    env = make_env(UNTRUSTED, provider="thread", allow_unisolated=True)
    env.reset()
    env.close()


def test_untrusted_environments_do_not_share_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    from openenv_gym.registration import shared

    server = openenv_gym.start_server("openenv/Echo-v0", provider="thread")
    with server, pytest.raises(errors.IsolationError, match="do not share a server"):
        make_env(UNTRUSTED, server=server)
    monkeypatch.setattr(shared, "lookup", lambda env_id: UNTRUSTED)
    with pytest.raises(errors.IsolationError, match="do not share a server"):
        openenv_gym.start_server("openenv/Echo-v0", provider="thread")


@pytest.mark.parametrize("provider", ["thread", "process"])
def test_a_shared_server_serves_several_environments(provider: str) -> None:
    with openenv_gym.start_server("openenv/CartPole-v1", provider=provider) as server:
        envs = [
            gymnasium.make(f"openenv/{name}", server=server)
            for name in ("CartPole-v1", "CartPole-v1", "MountainCar-v0")
        ]
        local = gymnasium.make("CartPole-v1")
        expected = local.reset(seed=4)[0]
        for env in envs[:2]:
            assert np.array_equal(env.reset(seed=4)[0], expected)
        envs[2].reset(seed=1)
        envs[0].close()
        assert np.array_equal(envs[1].step(1)[0], local.step(1)[0])  # the others go on
        local.close()
        for env in envs:
            env.close()
    with pytest.raises(errors.SessionClosedError, match="This server was closed"):
        gymnasium.make("openenv/CartPole-v1", server=server)
    assert "gymnasium" in repr(server)


def test_a_shared_server_of_another_package() -> None:
    server = openenv_gym.start_server("openenv/Echo-v0", provider="thread")
    with server, pytest.raises(errors.UnknownEnvironmentError, match="serves 'echo_env', not"):
        gymnasium.make("openenv/CartPole-v1", server=server)


def test_where_the_server_is_can_only_be_said_once() -> None:
    server = SharedServer(lookup("Echo-v0"), start(lookup("Echo-v0"), "thread"))
    with server, pytest.raises(errors.InvalidOptionError, match="provider and server each say"):
        gymnasium.make("openenv/Echo-v0", server=server, provider="thread")
    with pytest.raises(errors.InvalidOptionError, match="provider and base_url each say"):
        gymnasium.make("openenv/Echo-v0", base_url="http://127.0.0.1:1", provider="thread")
