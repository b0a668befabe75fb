"""``openenv-gym containerize``: anybody's environment in an image; bad input is named."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from click.testing import CliRunner, Result

from openenv_gym.cli.main import main
from openenv_gym.providers import DockerProvider
from openenv_gym.providers.docker.images import BASE_IMAGE_VARIABLE
from tests.support.images import image, python_image
from tests.support.interrupting import interrupt
from tests.support.waiting import eventually


PROJECT = """
[build-system]
requires = ["setuptools>=61"]
build-backend = "setuptools.build_meta"

[project]
name = "their-world"
version = "1.0"

[tool.setuptools]
py-modules = ["their_world"]
"""

WORLD = """
import gymnasium


class World(gymnasium.Env):
    action_space = gymnasium.spaces.Discrete(2)
    observation_space = gymnasium.spaces.Discrete(10)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return int(self.np_random.integers(10)), {}

    def step(self, action):
        return int(self.np_random.integers(10)), float(action), False, False, {}


gymnasium.register("World-v0", entry_point=World)
"""


def _containerize(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["containerize", *map(str, arguments)])


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "their_world.py").write_text(WORLD)
    return tmp_path


@pytest.fixture
def tag(docker: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Yield the name of an image that is removed afterwards; the base is there."""
    monkeypatch.setenv(BASE_IMAGE_VARIABLE, os.environ.get(BASE_IMAGE_VARIABLE) or python_image())
    image("base")
    name = f"openenv-gym-test-{uuid.uuid4().hex[:12]}:1"
    yield name
    if docker.api.images(name):
        docker.images.remove(name, force=True)


@pytest.mark.timeout(600)
def test_an_environment_of_ones_own(project: Path, tag: str) -> None:
    done = _containerize("their_world:World-v0", "--pip", project, "-t", tag, "--json")
    assert done.exit_code == 0, done.output
    facts = json.loads(done.stdout)
    assert facts["image"] == tag and facts["action_space"] == "Discrete(2)"
    env = eval(facts["make"], {"gymnasium": gymnasium, "DockerProvider": DockerProvider})
    first = env.reset(seed=5)[0]
    assert env.step(1)[1] == 1.0
    assert env.reset(seed=5)[0] == first
    env.close()


@pytest.mark.timeout(600)
def test_an_id_that_is_not_there_leaves_no_image(project: Path, tag: str, docker: Any) -> None:
    done = _containerize("their_world:Moon-v0", "--pip", project, "-t", tag)
    assert done.exit_code == 1 and "Moon" in done.stderr and "is removed" in done.stderr
    assert not docker.api.images(tag)


@pytest.mark.timeout(600)
def test_ctrl_c_while_it_is_tried_out_leaves_nothing(project: Path, tag: str, docker: Any) -> None:
    world = project / "their_world.py"
    slow = "        __import__('time').sleep(600)\n        super()"
    world.write_text(world.read_text().replace("        super()", slow))

    def running() -> list[Any]:
        found: list[Any] = docker.api.containers(filters={"ancestor": tag, "status": "running"})
        return found

    command = ["containerize", "their_world:World-v0", "--pip", str(project), "-t", tag]
    said = interrupt(*command, once=lambda: running() != [])
    assert "trying out" in said and "Aborted" in said
    assert eventually(lambda: running() == []) and not docker.api.images(tag)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["CartPole-v1"], "no MODULE:ENV_ID"),
        (["a b:X-v0"], "no MODULE:ENV_ID"),
        (["m:X-v0; true"], "no MODULE:ENV_ID"),
        (["m:X-v0", "--pip", "./nowhere"], "no pyproject.toml"),
        (["m:X-v0", "--pip", "--index-url=http://x"], "is no requirement"),
        (["m:X-v0", "--pip", "x\nRUN true"], "is no requirement"),
        (["m:X-v0", "--apt", "libgl1; true"], "is no package of Debian"),
    ],
)
def test_wrong_usage(arguments: list[str], told: str) -> None:
    done = _containerize(*arguments)
    assert done.exit_code == 2 and told in " ".join(done.stderr.split()), done.output
