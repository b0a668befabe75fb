"""OpenEnv's task API."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from openenv_gym.server import Mode, TaskProvider, create_app
from tests.server.openenv.conftest import Serve, Site
from tests.server.openenv.worlds import Lessons, Walk


class Course(Lessons, Walk):
    """An environment that has tasks itself."""

    def __init__(self) -> None:
        Lessons.__init__(self)
        Walk.__init__(self)


@pytest.fixture(params=["environment", "application"])
def site(request: pytest.FixtureRequest, serve: Serve) -> Site:
    if request.param == "environment":
        return serve(create_app(Course, name="walk"))
    return serve(replace(create_app(Walk, name="walk"), tasks=Lessons()))


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        ("tasks", {"split": "train"}, {"tasks": "all", "env_name": "walk"}),
        ("num_tasks", {"split": "train"}, {"num_tasks": 3}),
        ("num_tasks", {"split": "?"}, {"num_tasks": 0}),
        ("task", {"split": "train", "index": 1}, {"task": {"name": "lesson 1", "size": 1}}),
        ("task_range", {"split": "train", "stop": 3}, {"tasks": "all"}),
        ("task_range", {"split": "train", "start": 3}, {"tasks": []}),
    ],
)
def test_tasks(site: Site, path: str, body: Any, expected: Any) -> None:
    answer = site.ask("POST", f"/walk/{path}", body)
    assert answer.status == 200
    if expected.get("tasks") == "all":
        expected = {**expected, "tasks": [{"name": f"lesson {i}", "size": i} for i in range(3)]}
    assert answer.json() == expected


def test_splits(site: Site) -> None:
    assert isinstance(Course(), TaskProvider)
    assert site.ask("GET", "/list_environments").json() == ["walk"]
    assert site.ask("GET", "/WALK/splits").json() == [
        {"name": "train", "type": "train"},
        {"name": "hard", "type": "validation"},
        {"name": "test", "type": "test"},
    ]


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/walk/task", {"split": "train", "index": 3}, 400),
        ("/walk/task", {"split": "train"}, 422),
        ("/walk/task", {"split": "train", "index": "x"}, 422),
        ("/walk/tasks", None, 422),
        ("/run/tasks", {"split": "train"}, 404),
    ],
)
def test_refusals(site: Site, path: str, body: Any, status: int) -> None:
    answer = site.ask("POST", path, body)
    assert answer.status == status and answer.json()["detail"]


def test_an_environment_without_tasks(serve: Serve) -> None:
    site = serve(create_app(Walk, name="walk"))
    for method, path, body in [
        ("GET", "/walk/splits", None),
        ("POST", "/walk/task", {"split": "a", "index": 0}),
    ]:
        answer = site.ask(method, path, body)
        assert answer.status == 501 and "not supported" in answer.json()["detail"]


def test_tasks_are_nothing_for_agents(serve: Serve) -> None:
    app = replace(create_app(Walk, name="walk"), tasks=Lessons(), mode=Mode.PRODUCTION)
    site = serve(app)
    for name, body in [("tasks", {"split": "train"}), ("task", {"split": "train", "index": 0})]:
        answer = site.ask("POST", f"/walk/{name}", body)
        assert answer.status == 403 and "lesson" not in answer.json()["detail"]
