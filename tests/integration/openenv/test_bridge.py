"""`gymnasium.make` and `make_vec` on servers of the real OpenEnv package."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env

import openenv_gym
from openenv_gym import errors
from tests.integration.openenv.conftest import Serve


assert openenv_gym

pytestmark = [pytest.mark.openenv, pytest.mark.timeout(300)]

LEFT, RIGHT = 0, 1


def make(url: str, **options: Any) -> gymnasium.Env[Any, Any]:
    return gymnasium.make("openenv/Remote-v0", base_url=url, **options)


def test_an_episode(serve: Serve, release: str) -> None:
    url = serve(slots=1)
    env = make(url)
    assert env.action_space == spaces.Discrete(2)
    inner = env.observation_space["wind"]
    assert env.observation_space["place"] == spaces.Discrete(201, start=-100)
    assert inner["strength"] == spaces.Box(0.0, 1.0, (), np.float64)
    seen, info = env.reset(seed=8, options={"episode_id": "first", "level": 4})
    assert (seen["place"], seen["text"], seen["wind"]["strength"]) == (3, "level 4", 0.2)
    assert info["anything"] == [1, None]
    assert env.unwrapped.openenv.state() == {"episode_id": "first", "step_count": 0}
    for _ in range(6):
        assert env.step(RIGHT)[1:4] == (-0.5, False, False)
    seen, reward, terminated, truncated, _ = env.step(RIGHT)
    assert (seen["place"], reward, terminated, truncated) == (10, 1.0, True, False)
    env.reset(seed=0)
    for _ in range(20):
        last = env.step(LEFT)
    # OpenEnv 0.3.0 keeps the metadata to itself, and with it what the end was.
    assert last[2:4] == ((False, True) if release == "0.10" else (True, False))
    env.close()


def test_gymnasium_checks_it(serve: Serve) -> None:
    env = make(serve(slots=4))  # the checker makes others
    check_env(env.unwrapped, skip_render_check=True)
    env.close()


def test_what_goes_wrong_there(serve: Serve) -> None:
    env = make(serve())
    env.reset(options={"level": 13})
    with pytest.raises(errors.EnvironmentFailedError, match="lights are out"):
        env.step(LEFT)
    env.reset(options={"level": 14})
    with pytest.raises(errors.ProtocolError, match="NaN") as caught:
        env.step(LEFT)
    assert caught.value.field == "observation.wind.strength"
    env.reset()
    env.step(RIGHT)
    env.close()


def test_sessions_of_one_server(serve: Serve) -> None:
    envs = gymnasium.make_vec("openenv/Remote-v0", num_envs=4, base_url=serve(slots=5))
    seen, _ = envs.reset(seed=[1, 2, 3, 4])
    assert seen["place"].tolist() == [1, 2, 3, 4]
    for _ in range(25):
        step = envs.step([RIGHT, RIGHT, LEFT, LEFT])
    assert [each.shape for each in (step[0]["place"], *step[1:4])] == [(4,)] * 4
    envs.send([LEFT, RIGHT], [0, 2])
    assert sorted(envs.recv(min_envs=2).env_ids.tolist()) == [0, 2]
    envs.close()


def test_several_servers(serve: Serve) -> None:
    urls = [serve(), serve()]
    envs = gymnasium.make_vec("openenv/Remote-v0", num_envs=2, base_url=urls)
    envs.reset(seed=1)
    envs.step([RIGHT, LEFT])
    envs.close()


def test_a_server_with_too_few_places(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openenv_gym.bridge.session._FREE_S", 1.0)
    url = serve(slots=2)
    with pytest.raises(errors.CapacityError, match="capacity"):
        gymnasium.make_vec("openenv/Remote-v0", num_envs=4, base_url=url)


def test_tls(serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    wanted = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
    wanted += f" -addext subjectAltName=DNS:localhost -keyout {key} -out {certificate}"
    subprocess.run(["openssl", *wanted.split()], check=True, capture_output=True)
    url = serve(certificate=(certificate, key))
    with pytest.raises(errors.ServerUnreachableError, match="self-signed certificate"):
        make(url)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    env = make(url)
    env.reset(seed=2)
    assert env.step(RIGHT)[0]["place"] == 3
    env.close()
