"""The package: its models, its manifest, its server application."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

import atari_env
from atari_env import AtariAction, AtariEnv
from atari_env.models import action_model, observation_model
from atari_env.server.app import app
from atari_env.server.atari_environment import AtariEnvironment
from openenv_gym.errors import ProtocolError
from openenv_gym.models.manifest import load_manifest
from openenv_gym.server import Server

from .play import make_local, same


PACKAGE = Path(atari_env.__file__).parent


def test_models_are_made_once():
    assert action_model(6) is action_model(6)
    first, second = AtariEnvironment("pong"), AtariEnvironment("pong")
    assert first.observation_model is second.observation_model
    schema = observation_model((210, 160, 3)).model_json_schema()
    assert schema["title"] == "AtariObservation"
    assert schema["properties"]["screen"]["shape"] == [210, 160, 3]
    assert action_model(6).model_json_schema()["properties"]["action_id"]["exclusiveMaximum"] == 6


def test_importing_the_package_does_not_load_the_emulator():
    check = "import sys, atari_env; sys.exit('ale_py' in sys.modules)"
    subprocess.run(
        [sys.executable, "-c", check], check=True, env={"PYTHONPATH": ":".join(sys.path)}
    )


def test_manifest_agrees_with_the_code():
    manifest = load_manifest(PACKAGE / "openenv.yaml")
    assert (manifest.name, manifest.license) == ("atari_env", "GPL-2.0-only")
    assert (manifest.distribution, manifest.image) == ("openenv-gym-atari", "openenv-gym-atari")
    (entry,) = manifest.ids
    assert (entry.id, entry.kwargs) == ("Atari-v0", {"game": "pong"})
    assert list(entry.render_modes) == AtariEnvironment.metadata["render_modes"]
    assert entry.render_fps == AtariEnvironment.metadata["render_fps"]


def test_app_makes_environments():
    host = app.open({"game": "breakout", "obs_type": "ram"})
    local = make_local("Breakout", obs_type="ram")
    value, _ = host.execute("reset", [5])
    assert same(value, list(local.reset(seed=5)))
    value, _ = host.execute("step", [np.int64(1)])
    assert same(value, list(local.step(1)))
    assert host.execute("get", ["ale.lives"])[0][0] == 1  # a method
    assert host.execute("call", ["ale.lives", [], {}])[0] == 5
    assert host.execute("state", [])[0]["lives"] == 5
    host.close()


def test_an_action_of_openenvs_client_names_a_game_too():
    env = AtariEnvironment("breakout")
    sent = {"action_id": 2, "game_name": "pong", "obs_type": "rgb", "full_action_space": False}
    assert env.read_action(sent) == env.action_model(action_id=2)
    with pytest.raises(ValidationError, match="frameskip"):
        env.read_action({"action_id": 2, "frameskip": 4})


@pytest.mark.parametrize(
    ("options", "shape"),
    [({}, (210, 160, 3)), ({"obs_type": "ram"}, (128,)), ({"preprocess": True}, (4, 84, 84))],
)
def test_the_typed_client_sees_what_the_game_shows(options, shape, tmp_path):
    server = Server(app)
    server.listen_unix(str(tmp_path / "s"))
    server.start()
    try:
        with AtariEnv(base_url=f"unix://{tmp_path}/s", options=options).sync() as client:
            assert client.reset(seed=5).observation.screen.shape == shape
            result = client.step(AtariAction(action_id=1))
            assert result.observation.screen.dtype == np.uint8 and not result.done
            assert client.state().step_count == 1
    finally:
        server.stop()


def test_the_typed_client_reads_a_server_of_openenv():
    sent = {"screen": [*range(6)], "screen_shape": [1, 2, 3], "lives": 3, "legal_actions": [0, 1]}
    client = AtariEnv(base_url="http://127.0.0.1:1")
    result = client._parse_result({"observation": sent, "reward": 2.0, "done": False})
    assert result.observation.screen.tolist() == [[[0, 1, 2], [3, 4, 5]]]
    assert result.observation.metadata == {"lives": 3, "legal_actions": [0, 1]}
    assert result.reward == 2.0
    for wrong in ({"screen": "moon"}, {}, {"screen": [1], "screen_shape": [7]}):
        with pytest.raises(ProtocolError, match="screen"):
            client._parse_result({"observation": wrong})
