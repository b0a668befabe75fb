from __future__ import annotations

from openenv_gym.ray.placement import Placement


def test_workers_are_spread_evenly() -> None:
    placement = Placement(3)
    assert [placement.take(0.0) for _ in range(6)] == [0, 1, 2, 0, 1, 2]
    placement.leave(1)
    assert placement.take(0.0) == 1


def test_nobody_goes_to_a_server_in_trouble_until_later() -> None:
    placement = Placement(2)
    placement.strike(0, 10.0)
    assert [placement.take(10.0), placement.take(10.5)] == [1, 1]
    assert placement.take(11.0) == 0
    placement.strike(0, 11.0)
    placement.strike(1, 11.0)
    assert placement.take(12.5) == 1
    placement.strike(1, 12.5)
    assert placement.take(12.9) is None  # the first one for two seconds, as it was the second time
    assert placement.take(13.0) == 0


def test_a_server_that_does_what_it_is_asked_is_trusted_again() -> None:
    placement = Placement(1)
    for _ in range(3):
        placement.strike(0, 0.0)
    placement.good(0)
    placement.strike(0, 100.0)
    assert placement.take(101.0) == 0


def test_the_wait_is_bounded() -> None:
    placement = Placement(1)
    for _ in range(100):
        placement.strike(0, 0.0)
    assert placement.take(60.0) == 0
