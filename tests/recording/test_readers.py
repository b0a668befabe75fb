"""A file that several read at the same time: forked children of one parent, and threads."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import pytest

from openenv_gym import recording

from .files import numbers, write


STEPS = 400


@pytest.fixture
def path(tmp_path: Path) -> Path:
    # More chunks than stay unpacked, so that each reader reads them again and again.
    return write(tmp_path / "x", numbers(STEPS), limits=recording.Limits(40, 1 << 20, 60.0))


def reads_all(file: recording.RolloutFile, times: int, stride: int) -> bool:
    """Read all steps, not in their order, and tell whether each is what it was."""
    for at in range(times * STEPS):
        number = at * stride % STEPS
        if file.step(number).observation != float(number):
            return False
    return True


def test_forked_children_read_the_file_of_their_parent(path: Path) -> None:
    with recording.open(path) as file:
        assert file.step(0).observation == 0.0
        children = []
        for stride in (37, 61, 83):
            pid = os.fork()
            if pid == 0:
                code = 1
                try:
                    code = 0 if reads_all(file, 2, stride) else 2
                except BaseException as error:
                    print(error, file=sys.stderr)
                finally:
                    os._exit(code)
            children.append(pid)
        assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children] == [0] * 3


def test_threads_read_one_file(path: Path) -> None:
    done: list[bool] = []
    every_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with recording.open(path) as file:
            threads = [
                threading.Thread(
                    target=lambda stride=stride: done.append(reads_all(file, 2, stride))
                )  # type: ignore[misc]
                for stride in (37, 61, 83, 101)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    finally:
        sys.setswitchinterval(every_s)
    assert done == [True] * 4
