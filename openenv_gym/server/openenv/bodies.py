"""Bodies of OpenEnv's HTTP requests, and the refusals that a wrong one gets."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from openenv_gym import errors
from openenv_gym.protocol.openenv_json import validation_errors
from openenv_gym.server.http_messages import HttpRequest, HttpResponse
from openenv_gym.server.plain import to_plain


__all__ = [
    "RangeBody",
    "ResetBody",
    "SplitBody",
    "StepBody",
    "TaskBody",
    "json_refusal",
    "read_body",
    "refuse",
]

BodyT = TypeVar("BodyT", bound=BaseModel)

_MAX_NAME = 255


class ResetBody(BaseModel):
    """Of ``POST /reset``; further keys are arguments of the environment's own `reset`."""

    model_config = ConfigDict(extra="allow")

    seed: int | None = Field(default=None, ge=0, description="Seed of the episode")
    episode_id: str | None = Field(
        default=None, max_length=_MAX_NAME, description="Name of the episode"
    )


class StepBody(BaseModel):
    """Of ``POST /step``."""

    model_config = ConfigDict(extra="allow")

    action: dict[str, Any] = Field(description="The action, by field")
    timeout_s: float | None = Field(
        default=None, gt=0, description="Seconds that the step may take"
    )
    request_id: str | None = Field(
        default=None, max_length=_MAX_NAME, description="Name of the request, for its sender"
    )


class SplitBody(BaseModel):
    """Of ``POST /{env_name}/tasks`` and ``num_tasks``."""

    split: str = Field(description="Name of a split")


class TaskBody(SplitBody):
    """Of ``POST /{env_name}/task``."""

    index: int = Field(description="Position of the task in its split, from 0")


class RangeBody(SplitBody):
    """Of ``POST /{env_name}/task_range``."""

    start: int | None = Field(default=None, description="Position of the first task")
    stop: int | None = Field(default=None, description="Position behind the last task")


def read_body(request: HttpRequest, model: type[BodyT]) -> BodyT:
    """Read a body.

    Args:
        request: The request.
        model: What the body has to be; where all of it may be left out, so may the body.

    Raises:
        InvalidOptionError: It is something else; `data` has Pydantic's list of errors.
    """
    try:
        data = request.json()
    except errors.DecodeError as error:
        found = {"type": "json_invalid", "loc": ["body"], "msg": error.message, "input": {}}
        raise errors.InvalidOptionError(
            error.message, field="body", data={"errors": [found]}
        ) from error
    if data is None and all(not each.is_required() for each in model.model_fields.values()):
        data = {}
    try:
        return model.model_validate(data)
    except ValidationError as error:
        listed = error.errors(include_url=False, include_context=False)
        for each in listed:
            each["loc"] = ("body", *each["loc"])
            each["input"] = to_plain(each["input"])
        first = listed[0]
        name = ".".join(map(str, first["loc"]))
        raise errors.InvalidOptionError(
            f"{name}: {first['msg']}.", field=name, data={"errors": to_plain(listed)}
        ) from error


def json_refusal(status: HTTPStatus, detail: Any, **more: Any) -> HttpResponse:
    """Answer with OpenEnv's form of an error."""
    return HttpResponse.of_json({"detail": detail, **more}, status)


def refuse(error: BaseException) -> HttpResponse:
    """Return the answer for what went wrong; OpenEnv's statuses, where it has one for it."""
    if isinstance(error, (errors.InvalidActionError, errors.InvalidOptionError)):
        return json_refusal(HTTPStatus.UNPROCESSABLE_ENTITY, validation_errors(error))
    message = error.message if isinstance(error, errors.OpenEnvGymError) else str(error)
    if isinstance(error, errors.CapacityError):
        return json_refusal(
            HTTPStatus.SERVICE_UNAVAILABLE,
            message,
            code="CAPACITY_REACHED",
            active_sessions=error.data.get("sessions"),
            max_sessions=error.data.get("capacity"),
        )
    status = HTTPStatus.INTERNAL_SERVER_ERROR
    if isinstance(error, errors.ServerDrainingError):
        status = HTTPStatus.SERVICE_UNAVAILABLE
    elif isinstance(error, errors.DeadlineExceededError):
        status = HTTPStatus.GATEWAY_TIMEOUT
    elif isinstance(error, errors.ForbiddenOperationError):
        status = HTTPStatus.FORBIDDEN
    elif isinstance(error, NotImplementedError):
        status = HTTPStatus.NOT_IMPLEMENTED
    return json_refusal(status, message or type(error).__name__)
