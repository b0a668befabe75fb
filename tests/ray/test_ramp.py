from __future__ import annotations

from openenv_gym.ray.ramp import RampUp


def test_it_doubles_while_all_goes_well() -> None:
    ramp = RampUp(100)
    limits = []
    for _ in range(5):
        limits.append(ramp.limit)
        for _ in range(ramp.limit):
            ramp.started()
    assert limits == [1, 2, 4, 8, 16]


def test_it_stops_at_the_most() -> None:
    ramp = RampUp(3)
    for _ in range(10):
        ramp.finished(1.0, 100)
    assert ramp.limit == 3


def test_a_refusal_halves_it_and_then_it_grows_one_by_one() -> None:
    ramp = RampUp(100, start=16)
    ramp.refused(10.0)
    assert ramp.limit == 8 and ramp.paused_until() == 10.5
    for _ in range(8):
        ramp.finished(1.0, 100)
    assert ramp.limit == 8
    for _ in range(2):
        ramp.finished(1.0, 100)
    assert ramp.limit == 9


def test_refusals_one_after_the_other_wait_longer_and_leave_one() -> None:
    ramp = RampUp(100, start=16)
    waits = []
    for _ in range(8):
        ramp.refused(0.0)
        waits.append(ramp.paused_until())
    assert waits == [0.5, 1, 2, 4, 8, 16, 30, 30]
    assert ramp.limit == 1
    ramp.finished(1.0, 100)
    ramp.refused(0.0)
    assert ramp.paused_until() == 0.5


def test_steps_that_take_ever_longer_let_it_shrink() -> None:
    """Two processors, CPU-bound steps: more workers take longer in proportion."""
    ramp = RampUp(32)
    for _ in range(200):
        crowding = max(ramp.limit / 2, 1.0)
        ramp.finished(0.1 * crowding, 100)
    assert 2 <= ramp.limit <= 5


def test_steps_that_wait_for_something_else_let_it_grow() -> None:
    ramp = RampUp(32)
    for _ in range(200):
        ramp.finished(0.1, 100)
    assert ramp.limit == 32
