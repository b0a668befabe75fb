"""Ctrl-C wherever it comes while rows are handed over, and a writer that gets no thread."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from openenv_gym import recording
from openenv_gym.recording import writer as module


HANDING_OVER = {
    code.co_name: code
    for code in (
        module.RolloutWriter._hand_over_if_full.__code__,
        module.RolloutWriter._hand_over.__code__,
        module.RolloutWriter._deliver.__code__,
        module.RolloutWriter._has_thread.__code__,
        module.RolloutWriter._wait.__code__,
        module._Pending.__init__.__code__,
    )
}
STEPS = 12


class Interrupting:
    """Raises KeyboardInterrupt once, before the n-th instruction that hands rows over."""

    def __init__(self, instruction: int) -> None:
        self.left = instruction

    def __enter__(self) -> Interrupting:
        self._before = sys.gettrace()
        sys._getframe().f_trace_opcodes = True  # or Python 3.12 reports instructions of no frame
        sys.settrace(self._enter)
        return self

    def __exit__(self, *error: object) -> None:
        sys.settrace(self._before)

    def _enter(self, frame: Any, event: str, argument: Any) -> Any:
        if frame.f_code not in HANDING_OVER.values():
            return None
        frame.f_trace_opcodes = True
        return self._instruction

    def _instruction(self, frame: Any, event: str, argument: Any) -> Any:
        if event == "opcode":
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self._instruction


def record(path: Path, instruction: int) -> bool:
    """Write steps, with one Ctrl-C; tell whether it came."""
    writer = recording.RolloutWriter(path, {}, limits=recording.Limits(6, 1 << 20, 60.0))
    interrupted = False
    with Interrupting(instruction):
        for number in range(STEPS):
            try:
                writer.add_step(number, number, 0.0, False, False, {})
            except KeyboardInterrupt:
                interrupted = True
    writer.close()
    return interrupted


def writers() -> set[threading.Thread]:
    return {each for each in threading.enumerate() if each.name == "openenv-rollout"}


def test_ctrl_c_loses_no_row_and_doubles_none_wherever_it_comes(tmp_path: Path) -> None:
    before = writers()  # of recordings of earlier tests
    instruction, interrupted = 0, True
    while interrupted:
        instruction += 1
        path = tmp_path / f"{instruction}"
        interrupted = record(path, instruction)
        with recording.open(path) as file:
            assert file.closed and file.damage is None, instruction
            assert [row.number for row in file.rows()] == list(range(STEPS)), instruction  # type: ignore[union-attr]
            assert [row.action for row in file.rows()] == list(range(STEPS)), instruction  # type: ignore[union-attr]
        path.unlink()
    assert instruction > 100
    assert writers() <= before


class _Threads:
    """What a writer knows of threads, of which none begins; all others in this process may."""

    Lock = staticmethod(threading.Lock)

    class Thread(threading.Thread):
        def start(self) -> None:
            # In the words of Python 3.12, where this happens to a finaliser at the end of a program.
            raise RuntimeError("can't create new thread at interpreter shutdown")


@pytest.mark.parametrize("steps", [1, 50])
def test_a_recording_is_completed_where_no_thread_can_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    monkeypatch.setattr(module, "threading", _Threads)
    path = tmp_path / "x"
    writer = recording.RolloutWriter(path, {}, limits=recording.Limits(20, 1 << 20, 60.0))
    for number in range(steps):
        writer.add_step(number, number, 0.0, False, False, {})
    writer.close()
    with recording.open(path) as file:
        assert file.closed and file.steps == steps and file.step(steps - 1).action == steps - 1
