"""OpenEnv's task API: the tasks that an environment has, by split."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Protocol, TypeVar, runtime_checkable

from pydantic import BaseModel

from openenv_gym import errors
from openenv_gym.server.http_messages import HttpRequest, HttpResponse, Need, Note, Route
from openenv_gym.server.openenv.bodies import (
    RangeBody,
    SplitBody,
    TaskBody,
    json_refusal,
    read_body,
    refuse,
)


__all__ = ["TASK_METHODS", "TaskProvider", "TaskRoutes", "call_task_method"]

BodyT = TypeVar("BodyT", bound=BaseModel)

TASK_METHODS = ("list_splits", "list_tasks", "num_tasks", "get_task", "get_task_range")

_KINDS = ("train", "validation", "test")
_NO_PROVIDER = "{} is not supported for this environment"


@runtime_checkable
class TaskProvider(Protocol):
    """What has tasks: an environment with these methods, or an object beside it.

    A task is whatever JSON can carry, most often a map; `reset` is told which one to begin, by
    an option that the author names. A method that raises `NotImplementedError` is answered with
    status 501, as one that is missing.
    """

    def list_splits(self) -> Sequence[Any]:
        """Return the splits: names, or maps with ``name`` and ``type``."""

    def list_tasks(self, split: str) -> Sequence[Any]:
        """Return the tasks of a split."""

    def num_tasks(self, split: str) -> int:
        """Return how many there are."""

    def get_task(self, split: str, index: int) -> Any:
        """Return one of them.

        Raises:
            IndexError: There is none at this position.
        """

    def get_task_range(self, split: str, start: int | None, stop: int | None) -> Sequence[Any]:
        """Return those from `start` (None: the first) up to but not with `stop` (None: all)."""


def call_task_method(provider: Any, name: str, args: Sequence[Any]) -> Any:
    """Call a method of a `TaskProvider`, which need not have all of them.

    Raises:
        ProtocolError: The task API has no such method.
        NotImplementedError: The provider does not have it.
        Exception: Whatever it raises.
    """
    if name not in TASK_METHODS:
        raise errors.ProtocolError(
            f"{name!r:.40} is not of the task API; expected one of {', '.join(TASK_METHODS)}."
        )
    method = getattr(provider, name, None)
    if not callable(method):
        raise NotImplementedError(_NO_PROVIDER.format(name))
    return method(*args)


class TaskRoutes:
    """The routes of the task API.

    Args:
        name: Name of the environment, which paths begin with.
        call: Calls a method of the environment's `TaskProvider` with arguments, and returns what
            JSON can carry of its answer.
    """

    def __init__(self, name: str, call: Callable[[str, list[Any]], Any]) -> None:
        self._name = name
        self._call = call

    def routes(self) -> list[Route]:
        """Return what is served."""
        tasks = {"type": "object", "properties": {"tasks": {"type": "array"}}}
        return [
            Route(
                "GET",
                "/list_environments",
                lambda request: HttpResponse.of_json([self._name]),
                quick=True,
                note=_note("Names of the environments", None, {"type": "array"}),
            ),
            Route(
                "GET",
                "/{env_name}/splits",
                self._splits,
                need=Need.CALL,
                note=_note("Splits of the tasks", None, {"type": "array"}),
            ),
            self._route("tasks", "Tasks of a split", SplitBody, self._tasks, tasks),
            self._route("num_tasks", "Number of tasks in a split", SplitBody, self._count),
            self._route("task", "One task", TaskBody, self._task),
            self._route("task_range", "Some tasks", RangeBody, self._range, tasks),
        ]

    def _route(
        self,
        last: str,
        summary: str,
        model: type[BodyT],
        work: Callable[[BodyT], Any],
        answer: Mapping[str, Any] | None = None,
    ) -> Route:
        return Route(
            "POST",
            f"/{{env_name}}/{last}",
            lambda request: self._answer(request, lambda: work(read_body(request, model))),
            need=Need.CALL,
            note=_note(summary, model, answer or {"type": "object"}),
        )

    def _answer(self, request: HttpRequest, work: Callable[[], Any]) -> HttpResponse:
        named = request.parameters["env_name"]
        if named.lower() != self._name.lower():
            return json_refusal(HTTPStatus.NOT_FOUND, f"unknown environment {named[:80]!r}")
        try:
            return HttpResponse.of_json(work())
        except IndexError:
            return json_refusal(HTTPStatus.BAD_REQUEST, "Invalid task index")
        except Exception as error:
            return refuse(error)

    def _splits(self, request: HttpRequest) -> HttpResponse:
        return self._answer(
            request, lambda: [_as_split(each) for each in self._call("list_splits", [])]
        )

    def _tasks(self, body: SplitBody) -> Any:
        return {"tasks": self._call("list_tasks", [body.split]), "env_name": self._name}

    def _count(self, body: SplitBody) -> Any:
        return {"num_tasks": self._call("num_tasks", [body.split])}

    def _task(self, body: TaskBody) -> Any:
        return {"task": self._call("get_task", [body.split, body.index])}

    def _range(self, body: RangeBody) -> Any:
        return {"tasks": self._call("get_task_range", [body.split, body.start, body.stop])}


def _as_split(split: Any) -> Any:
    if isinstance(split, Mapping):
        return split
    return {"name": str(split), "type": split if split in _KINDS else "validation"}


def _note(summary: str, body: type[BaseModel] | None, answer: Mapping[str, Any]) -> Note:
    refusals = {
        HTTPStatus.NOT_FOUND: "No environment of this name",
        HTTPStatus.NOT_IMPLEMENTED: "It has no tasks",
        HTTPStatus.BAD_REQUEST: "No task at this position",
    }
    return Note(
        summary,
        "Task API",
        None if body is None else body.model_json_schema(),
        answer=answer,
        errors=refusals if body is not None else {},
    )
