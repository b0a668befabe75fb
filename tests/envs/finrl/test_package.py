"""The package: its models, its manifest, its server application."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import finrl_env
from finrl_env import FinRLAction, FinRLObservation
from finrl_env.models import action_model, observation_model
from finrl_env.server.app import app
from finrl_env.server.finrl_environment import FinRLEnvironment
from openenv_gym import AutoAction, AutoEnv
from openenv_gym.models.manifest import load_manifest

from .markets import A, B, bare, rows


PACKAGE = Path(finrl_env.__file__).parent


def test_models_are_made_once():
    assert action_model(3) is action_model(3)
    assert FinRLEnvironment().observation_model is FinRLEnvironment().observation_model
    actions = action_model(3).model_json_schema()["properties"]["actions"]
    assert (actions["shape"], actions["dtype"]) == ([3], "float32")
    assert observation_model(3, 8).model_json_schema()["properties"]["state"]["shape"] == [31]


def test_models_take_what_openenv_gives():
    seen = FinRLObservation(state=[1.0], portfolio_value=2.0, date="2020-01-01", reward=3.0)
    assert (seen.state, seen.portfolio_value, seen.date) == ([1.0], 2.0, "2020-01-01")
    assert FinRLObservation.model_validate(seen.model_dump()) == seen
    bare_one = FinRLObservation(state=np.ones(1, np.float32))
    assert (bare_one.state, bare_one.portfolio_value, bare_one.date) == ([1.0], 0.0, "")
    assert FinRLAction(actions=np.array([0.5, -1.0])).actions == [0.5, -1.0]
    for actions in ([], [1.5], [float("nan")], ["buy"]):
        with pytest.raises(ValueError, match="actions"):
            FinRLAction(actions=actions)


def test_spaces_are_those_of_the_readme():
    host = app.open({"data": rows(A=A, B=B), "tech_indicator_list": ["close_2_sma"]})
    low = host.env.observation_space.low
    assert low.tolist() == [0.0] * 5 + [-np.inf] * 2
    assert host.env.observation_space.dtype == np.float32
    assert host.env.action_space.shape == (2,) and host.env.action_space.dtype == np.float32
    host.close()


def test_the_schema_tells_of_value_and_date():
    schemas = bare().json_schemas()
    assert {"state", "portfolio_value", "date"} <= schemas["observation"]["properties"].keys()
    assert "tickers" in schemas["state"]["properties"]


def test_importing_the_package_does_not_load_pandas():
    check = "import sys, finrl_env; sys.exit('pandas' in sys.modules)"
    subprocess.run(
        [sys.executable, "-c", check], check=True, env={"PYTHONPATH": ":".join(sys.path)}
    )


@pytest.mark.parametrize("name", ["finrl", "finrl_env", "openenv/FinRL-v0"])
def test_clients_by_name(name):
    assert AutoEnv.get_env_class(name) is finrl_env.FinRLEnv
    assert AutoAction.from_env(name) is FinRLAction


def test_manifest_agrees_with_the_code():
    manifest = load_manifest(PACKAGE / "openenv.yaml")
    assert (manifest.name, manifest.license) == ("finrl_env", "MIT")
    assert (manifest.distribution, manifest.image) == ("openenv-gym-finrl", "openenv-gym-finrl")
    for name in (manifest.client, manifest.action, manifest.observation):
        assert hasattr(finrl_env, name)
    (entry,) = manifest.ids
    assert (entry.id, entry.kwargs) == ("FinRL-v0", {})
    assert list(entry.render_modes) == FinRLEnvironment.metadata["render_modes"]
    assert entry.render_fps == FinRLEnvironment.metadata["render_fps"]
