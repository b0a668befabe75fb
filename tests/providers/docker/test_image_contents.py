"""Images: what is in them, and what can be done with it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import textwrap
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from openenv_gym._version import __version__
from openenv_gym.client import Connection
from openenv_gym.models.manifest import load_manifest
from openenv_gym.providers import DockerProvider, ServerTarget
from openenv_gym.providers.docker.images import BaseImages, build_image
from tests.support.images import EVERY_PACKAGE, image, package_in, run_inside


ROOT = Path(__file__).parents[3]
BUILDING = pytest.mark.timeout(600)  # the first test that needs an image has it built


def labels_of(docker: Any, name: str) -> dict[str, str]:
    return dict(docker.api.inspect_image(name)["Config"]["Labels"])


@BUILDING
@pytest.mark.parametrize("package", EVERY_PACKAGE)
def test_labels_say_what_it_is(docker: Any, package: str) -> None:
    name = image(package)
    labels = labels_of(docker, name)
    assert labels["openenv.version"] == labels["org.opencontainers.image.version"] == __version__
    assert labels["openenv.source"].startswith(f"{package}@")
    assert labels["org.opencontainers.image.title"] == name.partition(":")[0]
    if package != "gymnasium":
        manifest = load_manifest(ROOT / "envs" / package / "openenv.yaml")
        # An image may hold more than the environment itself, under licences of its own.
        held = set(labels["org.opencontainers.image.licenses"].split(" AND "))
        assert set(manifest.license.split(" AND ")) <= held


@BUILDING
@pytest.mark.parametrize("package", EVERY_PACKAGE)
def test_it_loads_its_environment_without_a_network(docker: Any, package: str) -> None:
    code = f"""
        import os
        from openenv_gym.server.application import load_app
        print(load_app("{package}").name, os.getuid(), os.getgid())
    """
    assert run_inside(docker, image(package), code).split() == [package, "65534", "65534"]


@BUILDING
@pytest.mark.parametrize("package", ["base", *EVERY_PACKAGE])
def test_nothing_can_be_written_and_nothing_built(docker: Any, package: str) -> None:
    code = """
        import importlib.util, os, shutil
        top = [name for name in os.listdir("/") if name not in ("proc", "sys", "dev", "tmp")]
        found = [
            os.path.join(directory, name)
            for place in top
            for directory, directories, files in os.walk("/" + place)
            for name in directories + files
            if os.access(os.path.join(directory, name), os.W_OK, effective_ids=True)
        ]
        found += [name for name in ("cc", "gcc", "clang", "make", "git") if shutil.which(name)]
        found += [name for name in ("pip", "setuptools") if importlib.util.find_spec(name)]
        found += [name for name in ("/src", "/usr/src/openenv-gym") if os.path.exists(name)]
        print(found)
    """
    # The root is not made read-only here: it is the image itself that gives nothing away.
    output = docker.containers.run(
        image(package), ["python", "-c", textwrap.dedent(code)], remove=True, network_mode="none"
    )
    shared = {"/var/tmp", "/run/lock"}  # as in every Debian
    assert set(eval(output)) <= shared


@BUILDING
@pytest.mark.parametrize("package", EVERY_PACKAGE)
def test_bytecode_is_there_and_is_never_compared(docker: Any, package: str) -> None:
    code = """
        import importlib.util, os

        def can_be_compiled(path):
            try:
                return [compile(open(path, "rb").read(), path, "exec")]
            except SyntaxError:  # of a newer Python
                return []

        missing, other = [], 0
        for place in ("/opt/venv", "/opt/env"):
            for directory, _, files in os.walk(place + "/lib"):
                for name in files:
                    if not name.endswith(".py"):
                        continue
                    path = importlib.util.cache_from_source(os.path.join(directory, name))
                    if not os.path.exists(path):
                        missing += can_be_compiled(os.path.join(directory, name))
                    elif open(path, "rb").read(8)[4:] != b"\\x01\\0\\0\\0":  # hashed, not checked
                        other += 1
        print(len(missing), other)
    """
    assert run_inside(docker, image(package), code) == "0 0"


@BUILDING
def test_an_environment_adds_only_what_the_base_lacks(docker: Any) -> None:
    code = """
        import os, sys, sysconfig
        place = sysconfig.get_path("purelib").replace("/opt/venv", "/opt/env")
        assert sys.path.count(place) == 1
        print(sorted(name for name in os.listdir(place) if not name.endswith(".dist-info")))
    """
    assert run_inside(docker, image("echo_env"), code) == "['echo_env']"
    assert run_inside(docker, image("atari_env"), code) == "['ale_py', 'ale_py.libs', 'atari_env']"


@BUILDING
def test_gymnasium_draws_without_a_screen(docker: Any) -> None:
    names = ("CartPole-v1", "LunarLander-v3", "FrozenLake-v1", "Ant-v5")
    code = f"""
        import gymnasium
        for name in {names}:
            env = gymnasium.make(name, render_mode="rgb_array")
            env.reset(seed=0)
            print(name, env.render().std() > 1)
    """
    # What else is there, an environment prints by itself.
    lines = run_inside(docker, image("gymnasium"), code).splitlines()
    assert {f"{name} True" for name in names} <= set(lines)


# -- other interpreters and versions --------------------------------------------------------------


PAIR = (("3.10.13", "1.26.4"), ("3.12.1", "2.0.2"))  # interpreter and NumPy

PINNING = """
    ARG BUILD_IMAGE
    ARG BASE_IMAGE
    FROM ${BUILD_IMAGE} AS build
    COPY . /src
    RUN openenv-install /src
    FROM ${BASE_IMAGE}
    COPY --from=build /opt/env /opt/env
"""

PROJECT = """
    [project]
    name = "{name}"
    version = "0"
    dependencies = ["numpy=={numpy}", "openenv-gym"]

    [tool.setuptools]
    packages = ["{name}"]
    package-dir = {{ "{name}" = "." }}
"""

VERSIONS = """
    import platform
    import gymnasium
    import numpy
    from openenv_gym.server import create_app


    class Versions(gymnasium.Env):
        action_space = observation_space = gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            self.steps = 0
            return 0, {"python": platform.python_version(), "numpy": numpy.__version__}

        def step(self, action):
            self.steps += 1
            return self.steps, 0.0, False, False, {}


    app = create_app(Versions)
"""


@pytest.mark.long
@BUILDING
def test_a_rollout_with_two_pythons_and_two_numpys(
    docker: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    with contextlib.ExitStack() as stack:
        connections = [
            stack.enter_context(serving(docker, tmp_path, python, numpy)) for python, numpy in PAIR
        ]
        for connection, (python, numpy) in zip(connections, PAIR, strict=True):
            _, info = connection.call("reset", [None, None]).value
            assert info == {"python": python, "numpy": numpy}
        for number in range(1, 20):
            counts = [connection.call("step", [0]).value[0] for connection in connections]
            assert counts == [number, number]


@contextlib.contextmanager
def serving(docker: Any, directory: Path, python: str, numpy: str) -> Iterator[Connection]:
    """Build an image with its own interpreter and NumPy, and hold a session with it."""
    prefix = Path.home() / ".pyenv" / "versions" / python
    if not prefix.is_dir():
        pytest.skip(f"there is no Python {python} of pyenv's to make an image with")
    folder = package_in(directory, PINNING, {"app.py": VERSIONS})
    package, mark = folder.name, uuid.uuid4().hex
    (folder / "pyproject.toml").write_text(
        textwrap.dedent(PROJECT).format(name=package, numpy=numpy)
    )
    made = [f"openenv-gym-test:{mark}-{kind}" for kind in ("python", "run", "build", "env")]
    stage = f"{made[2]}-{package.removesuffix('_env')}"
    try:
        make_stand_in = ["servers/base/offline.py", "--python", str(prefix), "--tag", made[0]]
        subprocess.run([sys.executable, *make_stand_in], cwd=ROOT, check=True)
        base = BaseImages(run=made[1], build=made[2], python=made[0])
        name = build_image(docker, package, reference=made[3], base=base)
        server = DockerProvider(image=name, build="never").start(ServerTarget(f"{package}.app:app"))
        try:
            connection = Connection(
                server.address,
                {},
                token=server.token,
                why_lost=server.why_lost,
                connect_timeout_s=60,
            )
            yield connection
            connection.close()
        finally:
            server.stop()
    finally:
        for name in (made[3], stage, *made[:3]):
            if docker.api.images(name):
                docker.images.remove(name)
