"""OpenEnv's HTTP routes: control of an environment, and facts about it.

A request that controls an environment gets one of its own, which ends with the answer and takes a
place meanwhile. As in OpenEnv nothing connects two requests; sessions have a WebSocket.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from openenv_gym import errors
from openenv_gym.server.direct import DirectCaller
from openenv_gym.server.http_messages import HttpRequest, HttpResponse, Need, Note, Route
from openenv_gym.server.openenv.bodies import ResetBody, StepBody, read_body, refuse
from openenv_gym.server.openenv.openapi import describe_routes, routes_page
from openenv_gym.server.openenv.tasks import TaskRoutes
from openenv_gym.server.sessions import Sessions


__all__ = ["OpenEnvRoutes"]

Operation = tuple[str, list[Any]]

_OPEN_S = 120.0
_CALL_S = 600.0  # of a request that says no limit of its own

_CONTROL = "Environment Control"
_INFO = "Environment Info"
_SCHEMA = "Schema"

_REFUSALS = {
    HTTPStatus.UNPROCESSABLE_ENTITY: "The body, or the action, is not what it has to be",
    HTTPStatus.INTERNAL_SERVER_ERROR: "The environment raised an exception",
    HTTPStatus.SERVICE_UNAVAILABLE: "The server holds as many sessions as it may",
}


class OpenEnvRoutes:
    """Answers OpenEnv's requests, each in a thread that may wait.

    Args:
        sessions: Where environments are opened.
        name: Name of the environment.
        version: Its version.
        schemas: Returns its JSON Schemas.
        others: Returns all routes of the server, for ``/openapi.json``.
    """

    def __init__(
        self,
        sessions: Sessions,
        name: str,
        version: str,
        schemas: Callable[[], dict[str, Any]],
        others: Callable[[], tuple[Route, ...]],
    ) -> None:
        self._sessions = sessions
        self._name = name
        self._version = version
        self._schemas = schemas
        self._others = others

    def control(self) -> list[Route]:
        """Return the routes that control an environment."""
        outcome = {"$ref": "#/components/schemas/Outcome"}
        return [
            Route(
                "POST",
                "/reset",
                self._reset,
                need=Need.CALL,
                note=Note(
                    "Begin an episode",
                    _CONTROL,
                    ResetBody.model_json_schema(),
                    body_required=False,
                    answer=outcome,
                    errors=_REFUSALS,
                ),
            ),
            Route(
                "POST",
                "/step",
                self._step,
                need=Need.CALL,
                note=Note(
                    "Begin an episode and take one step of it",
                    _CONTROL,
                    StepBody.model_json_schema(),
                    answer=outcome,
                    errors=_REFUSALS,
                ),
            ),
            Route(
                "GET",
                "/state",
                self._state,
                need=Need.CALL,
                note=Note(
                    "State of a new environment",
                    _CONTROL,
                    answer={"$ref": "#/components/schemas/State"},
                    errors={each: _REFUSALS[each] for each in list(_REFUSALS)[1:]},
                ),
            ),
        ]

    def information(self) -> list[Route]:
        """Return the routes that only tell something."""
        tasks = TaskRoutes(self._name, self._call_task)
        return [
            Route(
                "GET",
                "/schema",
                lambda request: HttpResponse.of_json(self._all_schemas()),
                note=Note("JSON Schemas of actions, observations and state", _SCHEMA),
            ),
            Route("GET", "/openapi.json", self._openapi, note=Note("This description", _SCHEMA)),
            Route("GET", "/docs", self._page),
            Route("GET", "/redoc", self._page),
            *tasks.routes(),
        ]

    # -- control ----------------------------------------------------------------------------

    def _reset(self, request: HttpRequest) -> HttpResponse:
        def work() -> str:
            body = read_body(request, ResetBody)
            given = body.model_dump(exclude_unset=True)
            return str(self._with_environment([("json_reset", [given])]))

        return _answer(work)

    def _step(self, request: HttpRequest) -> HttpResponse:
        def work() -> str:
            body = read_body(request, StepBody)
            reset: Operation = ("json_reset", [{}])
            step: Operation = ("json_step", [body.action, body.timeout_s])
            return str(self._with_environment([reset, step], body.timeout_s))

        return _answer(work)

    def _state(self, request: HttpRequest) -> HttpResponse:
        try:
            state = self._with_environment([("json_state", [])])
        except Exception as error:
            return refuse(error)
        return HttpResponse(HTTPStatus.OK, state.encode(), "application/json")

    def _with_environment(self, operations: list[Operation], timeout_s: float | None = None) -> Any:
        """Make an environment, run operations on it and return what the last one returned."""
        try:
            caller = DirectCaller(self._sessions, {}, timeout_s=_OPEN_S)
        except errors.InvalidOptionError as error:  # of the server, not of the request
            raise errors.EnvironmentFailedError(
                f"Cannot make the environment: {error.message}", data=error.data
            ) from error
        value = None
        try:
            for op, args in operations:
                value = caller.call(op, args, timeout_s=timeout_s or _CALL_S)
        finally:
            caller.close()
        return value

    def _call_task(self, method: str, args: list[Any]) -> Any:
        return json.loads(self._with_environment([("json_task", [method, args])]))

    # -- facts ------------------------------------------------------------------------------

    def _all_schemas(self) -> dict[str, Any]:
        schemas = self._schemas()
        return {**schemas, "reset_observation": schemas.get("observation", {})}

    def _openapi(self, request: HttpRequest) -> HttpResponse:
        described = describe_routes(self._others(), self._name, self._version, self._schemas())
        return HttpResponse.of_json(described)

    def _page(self, request: HttpRequest) -> HttpResponse:
        return HttpResponse(
            HTTPStatus.OK,
            routes_page(self._others(), self._name).encode(),
            "text/html; charset=utf-8",
            {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"},
        )


def _answer(work: Callable[[], str]) -> HttpResponse:
    """Answer with the outcome that JSON already has; ``metadata`` is null where there is none."""
    try:
        outcome = json.loads(work())
    except Exception as error:
        return refuse(error)
    return HttpResponse.of_json({"metadata": None, **outcome})
