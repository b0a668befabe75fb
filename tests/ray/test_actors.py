"""Who ends a Ray that was started for collectors, with something in the place of Ray."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from openenv_gym.ray.actors import Actors


class Ray:
    """Runs or does not."""

    def __init__(self) -> None:
        self.starts = 0
        self.running = False

    def is_initialized(self) -> bool:
        return self.running

    def init(self, **options: Any) -> None:
        self.starts += 1
        self.running = True

    def shutdown(self) -> None:
        self.running = False

    def get_runtime_context(self) -> Any:
        return SimpleNamespace(get_node_id=lambda: self.starts, get_job_id=lambda: "01")


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> Ray:
    made = Ray()
    monkeypatch.setitem(sys.modules, "ray", made)
    return made


def actors() -> Actors:
    return Actors("openenv/CartPole-v1", {}, {})


def test_ray_runs_until_the_last_collector_is_closed(ray: Ray) -> None:
    first, second = actors(), actors()
    first.close()
    first.close()
    assert ray.running and ray.starts == 1
    third = actors()
    second.close()
    assert ray.running
    third.close()
    assert not ray.running
    actors().close()
    assert not ray.running and ray.starts == 2


def test_a_ray_of_somebody_else_is_left_alone(ray: Ray) -> None:
    ray.init()
    actors().close()
    assert ray.running
    ray.shutdown()
    ours = actors()
    ray.shutdown()
    ray.init()  # somebody ended ours, and has now one of his own
    other = actors()
    ours.close()
    other.close()
    assert ray.running
