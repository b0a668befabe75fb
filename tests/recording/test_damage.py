"""Files that were cut off, changed, or made by somebody who means harm."""

from __future__ import annotations

import random
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openenv_gym import recording
from openenv_gym.errors import RecordingDamagedError, RecordingError
from openenv_gym.recording import format as layout

from .files import numbers, write


STEPS = 60
A_CHUNK = 10


@pytest.fixture
def path(tmp_path: Path) -> Path:
    limits = recording.Limits(2 * A_CHUNK, 1 << 20, 60.0)
    return write(tmp_path / "whole", numbers(STEPS), limits=limits, compression="none")


def readable(path: Path) -> tuple[list[float], RecordingDamagedError | None]:
    """Return what can be read, checked to be a beginning of what was written."""
    found: list[float] = []
    try:
        with recording.open(path) as file:
            for row in file.rows():
                if isinstance(row, recording.Step):
                    assert (row.number, row.action) == (len(found), len(found))
                    found.append(row.observation)
            return found, file.damage
    except RecordingDamagedError as error:
        return found, error


def test_a_file_is_read_as_far_as_it_goes_wherever_it_is_cut(path: Path, tmp_path: Path) -> None:
    whole = path.read_bytes()
    cut = tmp_path / "cut"
    most = 0
    for size in range(0, len(whole), 37):
        cut.write_bytes(whole[:size])
        found, error = readable(cut)
        assert found == list(map(float, range(len(found)))) and len(found) >= most
        most = len(found)
        if error is not None and len(found):
            assert error.data["cut"] and f"chunk {error.data['chunk']}" in str(error)
    assert most == STEPS


def test_a_changed_byte_is_noticed_and_named(path: Path, tmp_path: Path) -> None:
    whole = path.read_bytes()
    changed = tmp_path / "changed"
    source = random.Random(1)
    noticed = 0
    for _ in range(150):
        at = source.randrange(len(whole))
        changed.write_bytes(
            whole[:at] + bytes([whole[at] ^ 1 << source.randrange(8)]) + whole[at + 1 :]
        )
        found, error = readable(changed)
        assert found == list(map(float, range(len(found))))  # nothing that is read is wrong
        if len(found) < STEPS:
            assert error is not None and (error.data.get("chunk") is not None or not found)
            noticed += 1
    assert noticed > 100


def test_what_is_before_a_damaged_chunk_can_be_read(path: Path) -> None:
    whole = bytearray(path.read_bytes())
    at = whole.rindex(np.arange(29, 39, dtype="<f8").tobytes())  # observations of the fourth chunk
    whole[at] ^= 255
    path.write_bytes(whole)
    with recording.open(path) as file:
        assert len(list(file.columns("reward", 0, STEPS))) == 7  # other columns are whole
        assert file.step(28).observation == 28.0 and file.step(39).observation == 39.0
        with pytest.raises(
            RecordingDamagedError, match="chunk 4, column steps.observation"
        ) as caught:
            file.step(30)
        assert caught.value.data["chunk"] == 4


def test_bytes_by_chance_are_refused(path: Path, tmp_path: Path) -> None:
    whole = path.read_bytes()
    garbled = tmp_path / "garbled"
    source = random.Random(2)
    for _ in range(100):
        data = bytearray(whole)
        begin = source.randrange(16, len(data))
        data[begin : begin + source.randrange(1, 400)] = source.randbytes(source.randrange(1, 400))
        garbled.write_bytes(data)
        found, _ = readable(garbled)
        assert found == list(map(float, range(len(found))))


def forged(path: Path, summary: dict[str, Any], blocks: list[bytes]) -> Path:
    """Write a file that is whole, and whose chunk of steps says what it likes."""
    metadata = layout.chunk_bytes(layout.METADATA, 0, {}, [])
    steps = layout.chunk_bytes(layout.STEPS, 1, summary, blocks)
    path.write_bytes(b"".join([layout.start_bytes(), *metadata, *steps]))
    return path


SOUND: dict[str, Any] = {
    "step": 0,
    "steps": 1,
    "resets": np.zeros(0, np.int64),
    "masked": np.zeros(0, np.int64),
    "masks": np.zeros((0, 0), np.bool_),
    "ends": np.zeros((0, 3), np.int64),
}
TREE: list[Any] = ["array", 0]


def deep(tree: list[Any]) -> list[Any]:
    for _ in range(20):
        tree = ["list", [tree]]
    return tree


@pytest.mark.parametrize(
    "change",
    [
        {"step": 5},
        {"steps": -1},
        {"steps": 2**63 - 1},
        {"steps": 7},
        {"steps": True},
        {"resets": [0]},
        {"masks": np.zeros((3, 1), np.bool_)},
        {"masked": np.array([5]), "masks": np.zeros((1, 1), np.bool_)},
        {"ends": np.array([[0, 99, 1]])},
        {"ends": np.zeros((1, 2), np.int64)},
        {"ends": np.array([[1, 0, 1]])},
        {"resets": np.array([2])},
        {"resets": np.array([-1])},
        {"tables": None},
        {"tables": {"steps": {}}},
        *(
            {"tables": {"steps": dict.fromkeys(("action", "observation"), tree)}}
            for tree in (
                None, [], [np.zeros(2)], ["array"], ["array", 1], ["array", -1], ["array", "0"], ["swapped", 0],
                ["scalar", 0], ["pickle", 0], ["dict", ["a"], []], ["dict", [[]], [TREE]], ["mixed", 0, []],
                ["mixed", 0, [["none"]]], ["objects", [0]], ["tuple", [["none"]] * 300], deep(TREE),
            )
        ),
    ],
)  # fmt: skip
def test_forged_summaries_are_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    block = layout.pack(np.zeros((1, 2)))
    info = [0, len(block), len(block), zlib.crc32(block)]
    columns = dict.fromkeys(
        ("action", "observation", "reward", "terminated", "truncated", "info"), TREE
    )
    summary = {**SOUND, "tables": {"steps": columns, "resets": {}}, "blocks": [info]}
    assert len(readable_rows(forged(tmp_path / "sound", summary, [block]))) == 1
    path = forged(tmp_path / "forged", {**summary, **change}, [block])
    with pytest.raises(RecordingDamagedError, match="chunk 1"):
        readable_rows(path)


def readable_rows(path: Path) -> list[Any]:
    with recording.open(path) as file:
        if file.damage is not None:
            raise file.damage
        return list(file.rows())


@pytest.mark.parametrize("compression", [1, 2])
@pytest.mark.parametrize("claim", ["little", "much", "truth"])
def test_bombs_take_no_memory(tmp_path: Path, compression: int, claim: str) -> None:
    packed = layout.pack(np.zeros(80 << 20, np.uint8))
    bomb = b"".join(layout.compress([packed], compression)[0])
    assert len(bomb) < 1 << 20
    raw = {"little": 100, "much": 1 << 50, "truth": len(packed)}[claim]
    del packed
    info = [compression, len(bomb), raw, zlib.crc32(bomb)]
    summary = {**SOUND, "tables": {"steps": {"action": TREE}}, "blocks": [info]}
    path = forged(tmp_path / "bomb", summary, [bomb])
    with (
        pytest.raises(RecordingDamagedError, match="chunk 1"),
        recording.open(path, max_block_bytes=64 << 20) as file,
    ):
        if file.damage is not None:
            raise file.damage
        file.step(0)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (
            b"".join([layout.start_bytes(), *layout.chunk_bytes(1, 0, {"vector": 5}, [])]),
            "vector is 5",
        ),
        (b"".join([layout.start_bytes(), *layout.chunk_bytes(1, 0, {"vector": {}}, [])]), "vector"),
        (b"".join([layout.start_bytes(), *layout.chunk_bytes(2, 0, {}, [])]), "not the metadata"),
        (b"", "does not begin as a recording"),
        (b"\x80\x04\x95" * 20, "does not begin as a recording"),
        (layout.START.pack(layout.MAGIC, 2, 0), "has format 2.0"),
        (layout.START.pack(layout.MAGIC, 1, 7), "chunk 0"),
    ],
)
def test_what_is_no_recording(tmp_path: Path, content: bytes, named: str) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)
    with pytest.raises(RecordingDamagedError, match=named):
        recording.open(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="cannot be opened: No such file"):
        recording.open(tmp_path / "none")


def test_columns_that_are_mixed_within_themselves_are_refused(tmp_path: Path) -> None:
    codes = layout.pack(np.zeros(1, np.uint8))
    info = [0, len(codes), len(codes), zlib.crc32(codes)]
    tables = {"steps": {"sound": ["mixed", 0, [["none"]]], "action": ["mixed", 0, [["mixed"]]]}}
    summary = {**SOUND, "tables": tables, "blocks": [info]}
    with recording.open(forged(tmp_path / "x", summary, [codes])) as file:
        assert next(file.columns("sound", 0, 1))[0].row(0) is None
        with pytest.raises(RecordingDamagedError, match="mixed themselves"):
            next(file.columns("action", 0, 1))


@pytest.mark.parametrize("compression", [1, 2])
def test_a_block_that_is_nothing_compressed_is_refused(tmp_path: Path, compression: int) -> None:
    block = b"\xff" * 40
    info = [compression, len(block), 99, zlib.crc32(block)]
    summary = {**SOUND, "tables": {"steps": {"action": TREE}}, "blocks": [info]}
    with (
        recording.open(forged(tmp_path / "x", summary, [block])) as file,
        pytest.raises(RecordingDamagedError, match="chunk 1, column steps.action.*unpacked"),
    ):
        next(file.columns("action", 0, 1))


@pytest.mark.parametrize("offset", [2**63, 2**64 - 1, 1 << 40])
def test_an_index_that_points_beyond_every_file_is_refused(path: Path, offset: int) -> None:
    index = {
        "offsets": np.array([offset], np.uint64),
        "steps": np.array([1], np.uint64),
        "resets_in": np.array([0], np.uint64),
        **{key: SOUND[key] for key in ("resets", "masked", "masks", "ends")},
    }
    block = layout.pack(index)
    infos = [[0, len(block), len(block), zlib.crc32(block)]]
    whole = b"".join([layout.start_bytes(), *layout.chunk_bytes(layout.METADATA, 0, {}, [])])
    chunk = layout.chunk_bytes(layout.INDEX, 2, {"steps": 1, "blocks": infos}, [block])
    trailer = layout.TRAILER.pack(len(whole), layout.TRAILER_MAGIC)
    path.write_bytes(b"".join([whole, *chunk, trailer]))
    with pytest.raises(RecordingDamagedError, match="chunk 1"), recording.open(path) as file:
        file.step(0)
