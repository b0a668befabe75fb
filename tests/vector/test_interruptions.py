"""Ctrl-C at any moment, and forked children."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from openenv_gym import errors
from tests.support.interrupting import interrupted_in
from tests.vector.worlds import CountEnv, Fleet, GateEnv, same


@pytest.mark.parametrize("num_servers", [1, 2])
def test_ctrl_c_at_any_moment(fleet: Callable[..., Fleet], num_servers: int) -> None:
    env = fleet(CountEnv, 4, num_servers).env
    twin = fleet(CountEnv, 4, num_servers).env
    env.reset(seed=0)
    actions = np.zeros(4, int)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        with warnings.catch_warnings():
            # A socket that was being made when the signal came is closed by the collector.
            warnings.simplefilter("ignore", ResourceWarning)
            caught = 0
            for number in range(100):
                if number % 20 == 0:  # what was given up is answered: so much may be under way
                    env.step(actions)
                caught += interrupts(env, 0.001 + 0.00002 * number)
            gc.collect()  # or it comes later, where this is an error
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert caught > 90
    same(env.reset(seed=7), twin.reset(seed=7))
    for _ in range(20):
        same(env.step(actions), twin.step(actions))


def interrupts(env: Any, after_s: float) -> bool:
    """Interrupt steps; False where the interpreter dropped the interrupt.

    That is what it does in a finalizer, and the collector may run one in any line. Nothing else
    would end the steps then: the timer of the test itself is the one that is used here.
    """
    end_s = time.monotonic() + 5
    try:
        signal.setitimer(signal.ITIMER_REAL, after_s)
        while time.monotonic() < end_s:
            env.step(np.zeros(4, int))
    except KeyboardInterrupt:
        return True
    return False


def test_ctrl_c_in_a_wait_gives_the_call_up(
    fleet: Callable[..., Fleet], gate: threading.Event
) -> None:
    env = fleet(GateEnv, 2, 2).env
    env.reset(seed=0)
    env.step_async([1, 1])
    with interrupted_in("gather"), pytest.raises(KeyboardInterrupt):
        env.step_wait()
    gate.set()
    assert env.step([0, 0])[1].tolist() == [2, 2]  # it was given up, and shifts nothing


def test_a_forked_child(fleet: Callable[..., Fleet]) -> None:
    env = fleet(CountEnv, 4, 2).env
    env.reset(seed=0)
    env.step_async([100, 0, 0, 0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads
        pid = os.fork()
    if pid == 0:
        code = 1
        try:
            signal.alarm(60)
            warnings.simplefilter("ignore")
            try:
                env.step_wait()
            except errors.ForkedSessionError:
                code = 0
            env.close(terminate=True)
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0
    assert env.step_wait()[1].tolist() == [1] * 4
    assert env.step([0] * 4)[1].tolist() == [2] * 4
