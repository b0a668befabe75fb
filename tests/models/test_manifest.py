from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from openenv_gym.errors import ManifestError
from openenv_gym.models.manifest import Manifest, load_manifest


if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def write(text: str | bytes) -> Path:
        path = tmp_path / "openenv.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


FULL = """
spec_version: 1
name: connect_four_env
version: "0.3.1"
description: Four in a row.
type: space
runtime: fastapi
app: server.app:app
port: 8123
distribution: openenv-gym-connect-four
license: MIT
image: registry.example/openenv-gym-four
untrusted: true
thread_affinity: true
vectorized: {batched: true}
ids:
  - id: ConnectFour-v0
    kwargs: {columns: 7, opponent: null, weights: [0.5, 1], deep: {er: true}}
    render_modes: [ansi, rgb_array]
    render_fps: 4
    max_episode_steps: 42
    reward_threshold: 0.9
    nondeterministic: true
  - id: ConnectFive-v1
"""


def test_all_fields(write: Any) -> None:
    manifest = load_manifest(write(FULL))
    assert manifest.name == "connect_four_env"
    assert manifest.short_name == "connect-four"
    assert manifest.version == "0.3.1"
    assert manifest.port == 8123
    assert manifest.distribution == "openenv-gym-connect-four"
    assert manifest.license == "MIT"
    assert manifest.image == "registry.example/openenv-gym-four"
    assert manifest.untrusted
    assert manifest.vectorized == {"batched": True}
    assert manifest.thread_affinity
    four, five = manifest.ids
    assert four.model_dump() == {
        "id": "ConnectFour-v0",
        "kwargs": {"columns": 7, "opponent": None, "weights": [0.5, 1], "deep": {"er": True}},
        "render_modes": ("ansi", "rgb_array"),
        "render_fps": 4,
        "max_episode_steps": 42,
        "reward_threshold": 0.9,
        "nondeterministic": True,
    }
    assert five.render_modes is None
    assert five.kwargs == {}


@pytest.mark.parametrize(
    ("name", "image"),
    [
        ("echo_env", "openenv-gym-echo"),
        ("connect_four_env", "openenv-gym-connect-four"),
        ("Repl", "openenv-gym-repl"),
        ("my-env", "openenv-gym-my"),
    ],
)
def test_image_from_name(name: str, image: str) -> None:
    assert Manifest.model_validate({"name": name}).image == image


def test_a_manifest_of_openenv(write: Any) -> None:
    manifest = load_manifest(
        write(
            "name: coding_env\nversion: 0.1\naction: CodeAction\nvariables: {A: b}\n"
            "default_image: some/image\nclient: a.b:Client\nobservation: O\nvalidation: {x: [1]}\n"
        )
    )
    assert (manifest.version, manifest.app, manifest.port) == ("0.1", "server.app:app", 8000)
    assert (manifest.untrusted, manifest.thread_affinity, manifest.ids) == (False, False, ())
    assert manifest.distribution is None
    assert manifest.model_extra is not None
    assert manifest.model_extra["variables"] == {"A": "b"}
    classes = (manifest.client, manifest.action, manifest.observation)
    assert classes == ("a.b:Client", "CodeAction", "O")
    assert manifest.default_image == "some/image"


@pytest.mark.parametrize(
    ("text", "field", "message"),
    [
        ("port: 1", "name", "`name` is missing; expected a name of letters"),
        ("name: 'a b'", "name", "`name` is 'a b'; expected a name of letters"),
        ("name: a\nspec_version: 2", "spec_version", "`spec_version` is 2; expected 1"),
        ("name: a\nport: 80000", "port", "`port` is 80000; expected a port from 1 to 65535"),
        ("name: a\nport: www", "port", "`port` is 'www'; expected a port"),
        ("name: a\nclient: a/b", "client", "expected a class, such as `EchoAction`"),
        ("name: a\napp: server.app", "app", "expected `module:attribute`"),
        ("name: a\nuntrusted: maybe", "untrusted", "`untrusted` is 'maybe'; expected true or fal"),
        ("name: a\nuntrused: true", "untrused", "expected `untrusted`"),
        ("name: a\nlicence: MIT", "licence", "expected `license`"),
        ("name: a\nimage: UPPER", "image", "in lower case"),
        ("name: a\nids: Chess-v0", "ids", "expected a list of mappings"),
        ("name: a\nids: [Chess-v0]", "ids[0]", "`ids[0]` is 'Chess-v0'; expected a list of map"),
        ("name: a\nids: [{}]", "ids[0].id", "`ids[0].id` is missing; expected a name with a ver"),
        ("name: a\nids: [{id: Chess}]", "ids[0].id", "is 'Chess'; expected a name with a version"),
        ("name: a\nids: [{id: o/C-v0}]", "ids[0].id", "without a namespace"),
        ("name: a\nids: [{id: C-v0}, {id: C-v0}]", "ids", "each id once; C-v0"),
        ("name: a\nids: [{id: C-v0, fps: 3}]", "ids[0].fps", "expected one of id, kwargs, render"),
        (
            "name: a\nids: [{id: C-v0, max_episode_steps: 0}]",
            "ids[0].max_episode_steps",
            "is 0; expected an integer greater than 0",
        ),
        ("name: a\nids: [{id: C-v0, kwargs: {day: 2024-01-01}}]", None, "mapping of plain data"),
        ("name: a\nids: [{id: C-v0, kwargs: [1]}]", "ids[0].kwargs", "mapping of plain data"),
    ],
)
def test_bad_fields(write: Any, text: str, field: str | None, message: str) -> None:
    path = write(text)
    with pytest.raises(ManifestError) as caught:
        load_manifest(path)
    error = caught.value
    assert str(path) in str(error)
    assert message in str(error)
    assert error.hint
    assert error.data["file"] == str(path)
    if field is not None:
        assert error.field == field
    assert "pydantic" not in str(error)


def test_all_problems_are_listed(write: Any) -> None:
    with pytest.raises(ManifestError, match=r"\(2 more\)") as caught:
        load_manifest(write("name: a b\nport: 0\napp: x"))
    assert len(caught.value.data["problems"]) == 3


def test_long_values_are_cut(write: Any) -> None:
    with pytest.raises(ManifestError) as caught:
        load_manifest(write(f"name: a\nport: {'x' * 10_000}"))
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "holds nothing; expected a mapping"),
        (b"- a\n- b", "holds list; expected a mapping"),
        (b"1: a", "expected a mapping with names as keys"),
        (b"name: [", "is not YAML"),
        (b"name: !!python/object:os.system x", "is not YAML"),
        (b"name: \xff\xfe", "cannot be read"),
    ],
)
def test_no_mapping(write: Any, content: bytes, message: str) -> None:
    with pytest.raises(ManifestError, match=message) as caught:
        load_manifest(write(content))
    assert caught.value.hint


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="There is no manifest") as caught:
        load_manifest(os.fspath(tmp_path / "openenv.yaml"))
    assert "package data" in str(caught.value)


def test_a_directory(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="cannot be read"):
        load_manifest(tmp_path)
