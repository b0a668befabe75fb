"""Whatever an environment returns comes out of a file as it went in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.vector.utils import batch_space
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openenv_gym import recording
from openenv_gym.errors import RecordingError
from openenv_gym.recording import format as layout
from openenv_gym.recording.columns import pack_column, read_column

from ..protocol.codec.packets import round_trip, strict_equal
from ..protocol.codec.strategies import arrays, values
from ..spaces.corpus import SPACES, UNSAMPLED
from ..spaces.strategies import seeds, spaces
from .files import write


def through_columns(rows: list[Any], num_envs: int = 0) -> list[Any]:
    blocks: list[layout.Parts] = []
    tree = round_trip(pack_column(rows, blocks, "value", num_envs=num_envs))
    column = read_column(tree, len(rows), lambda block: layout.unpack(b"".join(blocks[block])))
    return [column.row(row) for row in range(len(rows))]


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(values, min_size=1, max_size=4))
def test_values_of_any_kind(rows: list[Any]) -> None:
    assert strict_equal(through_columns(rows), round_trip(rows))


@settings(max_examples=60, deadline=None)
@given(arrays, st.integers(1, 4), st.booleans())
def test_columns_of_arrays(array: Any, count: int, in_info: bool) -> None:
    row = {"info": (array, [1.5, None, -3])} if in_info else array
    assert strict_equal(through_columns([row] * count), round_trip([row] * count))


@settings(max_examples=60, deadline=None)
@given(spaces(), seeds, st.integers(1, 3))
def test_samples_and_batches_of_spaces(space: Any, seed: int, num_envs: int) -> None:
    batched = batch_space(space, num_envs)
    for each in (space, batched):
        each.seed(seed)
        rows = [each.sample() for _ in range(3)]
        assert strict_equal(through_columns(rows, num_envs), round_trip(rows))


@pytest.mark.parametrize("name", [name for name in SPACES if name not in UNSAMPLED])
def test_samples_of_peculiar_spaces(name: str) -> None:
    space = SPACES[name]
    space.seed(1)
    rows = [space.sample() for _ in range(3)]
    assert strict_equal(through_columns(rows), round_trip(rows))


@pytest.mark.parametrize("compression", ["zstd", "zlib", "none"])
def test_rows_of_a_file(tmp_path: Path, compression: str) -> None:
    odd = np.zeros(3, np.dtype([("a", "u1"), ("b", "<f8")], align=True))
    infos = [{}, {"a": 1}, {"a": 1.0}, {"t": "text\u20ac", "n": None}, {"odd": odd, "big": 2**70}]
    rows: list[Any] = [
        recording.Reset(0, 2**31, {"level": (1, "two")}, np.float16([np.nan, -0.0]), {"x": {}}),
        *(
            recording.Step(at, np.int16(at), np.float16([at, 1]), [at, 0.5, None][at % 3],
                           np.bool_(False), False, info)
            for at, info in enumerate(infos * 50)
        ),
        recording.Reset(250, None, None, np.float16([1, 2]), {}),
        recording.Reset(250, None, {}, np.float16([1, 3]), {"again": True}),
    ]  # fmt: skip
    path = write(
        tmp_path / "x", rows, compression=compression, limits=recording.Limits(40, 1 << 20, 9.0)
    )
    with recording.open(path) as file:
        assert strict_equal([tuple(row) for row in file.rows()], [tuple(row) for row in rows])
        assert file.closed and file.damage is None and (file.steps, file.resets) == (250, 3)
        assert strict_equal(tuple(file.step(123)), tuple(rows[124]))
        assert strict_equal(tuple(file.reset(2)), tuple(rows[-1]))
        with pytest.raises(IndexError, match="no step 250"):
            file.step(250)


def _family(children: int, levels: int, odd: bool) -> Any:
    """Return somebody with so many children, who have as many, over some generations."""
    if not levels:
        return 1.0 if odd else 1
    extra = {"odd": None} if odd else {}
    return {
        "children": [_family(children, levels - 1, odd != bool(n)) for n in range(children)],
        **extra,
    }


@pytest.mark.parametrize("levels", range(1, 10))
def test_values_that_vary_at_every_depth(tmp_path: Path, levels: int) -> None:
    infos = [_family(1 + at % 2, levels, at % 3 == 0) for at in range(7)]
    steps = [recording.Step(at, 0, 0, 0.0, False, False, info) for at, info in enumerate(infos)]
    with recording.open(write(tmp_path / "x", steps)) as file:
        assert file.closed and strict_equal([file.step(at).info for at in range(7)], infos)


def test_what_is_kept_is_a_copy(tmp_path: Path) -> None:
    writer = recording.RolloutWriter(tmp_path / "x", {})
    same = np.zeros(2)
    info: dict[str, Any] = {"list": [], "objects": np.array([[1], {}], object)}
    for at in range(3):
        same[:] = at
        info["list"].append(at)
        info["objects"][0].append(at)
        writer.add_step(same, {"a": same}, 0.0, False, False, info)
    writer.close()
    with recording.open(tmp_path / "x") as file:
        steps = [row for row in file.rows() if isinstance(row, recording.Step)]
    assert [step.action[0] for step in steps] == [0, 1, 2]
    assert [step.observation["a"][0] for step in steps] == [0, 1, 2]
    assert [len(step.info["list"]) for step in steps] == [1, 2, 3]
    assert [len(step.info["objects"][0]) for step in steps] == [2, 3, 4]


@pytest.mark.parametrize("kind", [np.ndarray, np.recarray])
def test_a_structure_is_kept_as_it_was(tmp_path: Path, kind: Any) -> None:
    table = np.zeros(2, np.dtype([("a", "u1"), ("b", "<f8")], align=True)).view(kind)
    writer = recording.RolloutWriter(tmp_path / "x", {})
    for at in range(3):
        table["b"] = at
        writer.add_step(0, table[0], 0.0, False, False, {"inner": [table[1]]})
    writer.close()
    with recording.open(tmp_path / "x") as file:
        assert [float(file.step(at).observation["b"]) for at in range(3)] == [0, 1, 2]
        assert [float(file.step(at).info["inner"][0]["b"]) for at in range(3)] == [0, 1, 2]


def test_what_cannot_be_kept_is_named(tmp_path: Path) -> None:
    writer = recording.RolloutWriter(tmp_path / "x", {})
    writer.add_step(0, 0, 0.0, False, False, {})
    writer.flush()
    writer.add_step(0, 0, 0.0, False, False, {"engine": object()})
    with pytest.raises(RecordingError, match=r"info.*'engine'"):
        writer.flush()
    writer.close()
    with recording.open(tmp_path / "x") as file:
        assert file.steps == 1 and file.damage is None and not file.closed
