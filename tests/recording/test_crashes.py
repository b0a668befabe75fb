"""Whoever records is killed, has no space or no right: the file holds what it held."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import gymnasium
import pytest

from openenv_gym import recording
from openenv_gym.errors import ConfigurationError, RecordingError, RecordingWriteError

from ..support.waiting import eventually
from .files import numbers


ROOT = Path(__file__).parents[2]
LOST = 200
ENDLESS = f"""
import itertools, sys
from openenv_gym import recording

limits = recording.Limits({LOST}, 1 << 30, 3600.0)
writer = recording.RolloutWriter(sys.argv[1], {{}}, limits=limits)
for at in itertools.count():
    writer.add_step(at, [float(at)] * 20, 0.0, False, False, {{}})
    print(at + 1, flush=True)
"""


@pytest.mark.parametrize("seed", range(3))
def test_a_killed_recorder_loses_at_most_the_last_chunk(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "x"
    told = tmp_path / "told"
    with told.open("wb") as out:
        process = subprocess.Popen([sys.executable, "-c", ENDLESS, path], stdout=out, cwd=ROOT)
    try:
        assert eventually(lambda: told.stat().st_size > 5_000, within_s=90)
        time.sleep(random.Random(seed).random() / 5)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    told_steps = int(told.read_text().rsplit("\n", 2)[-2])
    with recording.open(path) as file:
        assert not file.closed and (file.damage is None or file.damage.data["cut"])
        assert told_steps - LOST <= file.steps
        steps = [row for row in file.rows() if isinstance(row, recording.Step)]
        assert [step.action for step in steps] == list(range(file.steps))
        assert all(step.observation == [float(step.number)] * 20 for step in steps)


FULL = """
import resource, sys
import gymnasium, numpy as np
from openenv_gym import recording
from openenv_gym.errors import RecordingWriteError

resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
env = gymnasium.make("CartPole-v1")
env = recording.RecordRollout(env, sys.argv[1], compression="none", max_lost_steps=500)
env.reset(seed=0)
try:
    for steps in range(100_000):
        if env.step(steps % 2)[2]:
            env.reset()
except RecordingWriteError as error:
    assert isinstance(error, OSError) and "cannot be written" in str(error), error
    print("told", steps, error.errno)
try:
    env.reset()  # it is told again, not forgotten
except RecordingWriteError:
    env.close()
"""


def test_a_full_disk_is_told_and_what_is_there_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "x"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", FULL, path], capture_output=True, text=True, cwd=ROOT
    )
    assert (done.returncode, done.stderr) == (0, "")
    told, steps, _ = done.stdout.split()
    with recording.open(path) as file:
        assert told == "told" and file.damage is None and not file.closed
        assert int(steps) - 500 <= file.steps <= int(steps) and len(file.episodes) > 10
        assert recording.replay(file).steps == file.steps


def test_a_device_that_is_full() -> None:
    with pytest.raises(RecordingWriteError, match="No space left on device"):
        recording.RolloutWriter("/dev/full", {}, overwrite=True)


def test_an_existing_file_is_kept_unless_told(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("precious")
    env = gymnasium.make("CartPole-v1")
    with pytest.raises(RecordingWriteError, match=r"exists already.*overwrite"):
        recording.RecordRollout(env, path)
    assert path.read_text() == "precious"
    recording.RecordRollout(env, path, overwrite=True).close()
    with recording.open(path) as file:
        assert file.closed and len(file.episodes) == file.steps == 0


@pytest.mark.parametrize("place", ["none/x", "file/x"])
def test_a_place_that_cannot_be_written(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RecordingWriteError, match="cannot be written"):
        recording.RolloutWriter(tmp_path / place, {})


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_that_is_read_only(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(RecordingWriteError, match="Permission denied"):
        recording.RolloutWriter(tmp_path / "x", {})


def test_a_directory_that_nobody_may_write_to() -> None:
    with pytest.raises(RecordingWriteError, match="cannot be written"):
        recording.RolloutWriter("/proc/self/x.rollout", {})


def test_a_program_that_just_ends_completes_its_file(tmp_path: Path) -> None:
    code = (
        "import gymnasium; from openenv_gym import recording; import sys\n"
        "env = recording.RecordRollout(gymnasium.make('CartPole-v1'), sys.argv[1])\n"
        "env.reset(seed=1); env.step(0)\n"
    )
    subprocess.run([sys.executable, "-c", code, tmp_path / "x"], check=True, cwd=ROOT)
    with recording.open(tmp_path / "x") as file:
        assert file.closed and file.steps == 1


def test_a_forked_child_leaves_the_file_alone(tmp_path: Path) -> None:
    code = (
        "import os, sys; from openenv_gym import recording\n"
        "from openenv_gym.errors import RecordingError\n"
        "writer = recording.RolloutWriter(sys.argv[1], {})\n"
        "writer.add_step(0, 0, 0.0, False, False, {})\n"
        "if os.fork() == 0:\n"
        "    try:\n        writer.add_step(1, 0, 0.0, False, False, {})\n"
        "    except RecordingError as error:\n"
        "        writer.close()\n        os._exit(7 * ('forked child' in str(error)))\n"
        "assert os.waitstatus_to_exitcode(os.wait()[1]) == 7\n"
        "writer.close()\n"
    )
    subprocess.run([sys.executable, "-c", code, tmp_path / "x"], check=True, cwd=ROOT)
    with recording.open(tmp_path / "x") as file:
        assert file.closed and file.steps == 1


def test_a_file_is_read_while_it_is_written(tmp_path: Path) -> None:
    writer = recording.RolloutWriter(tmp_path / "x", {})
    for row in numbers(25)[1:]:
        writer.add_step(*row[1:7])
        writer.flush()
        with recording.open(tmp_path / "x") as file:
            assert file.steps == row.number + 1 and not file.closed and file.damage is None
    writer.close()
    writer.close()
    with pytest.raises(RecordingError, match="is closed"):
        writer.add_reset(None, None, 0, {})


@pytest.mark.parametrize("name", ["max_lost_steps", "max_lost_bytes", "max_lost_s"])
def test_limits_that_are_none(tmp_path: Path, name: str) -> None:
    env = gymnasium.make("CartPole-v1")
    with pytest.raises(ConfigurationError, match=f"{name}=0"):
        recording.RecordRollout(env, tmp_path / "x", **{name: 0})
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ConfigurationError, match="frames=True"):
        recording.RecordRollout(env, tmp_path / "x", frames=True)
    with pytest.raises(ConfigurationError, match="compression='lzma'"):
        recording.RecordRollout(env, tmp_path / "x", compression="lzma")
    assert list(tmp_path.iterdir()) == []
