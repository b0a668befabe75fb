"""The same frames and requests to OpenEnv's server and to ours: the same answers."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.integration.openenv.asking import asked, heard, opened, said
from tests.integration.openenv.running import ours, theirs
from tests.support.waiting import eventually


pytestmark = [pytest.mark.openenv, pytest.mark.timeout(300)]

TWIN = "tests.integration.openenv.twin:Twin"
SCRIPT = Path(__file__).with_name("twin.py")
SLOTS = 4

RESET, STATE, CLOSE = {"type": "reset"}, {"type": "state"}, {"type": "close"}


def reset(**data: Any) -> Any:
    return {"type": "reset", "data": data}


def step(**data: Any) -> Any:
    return {"type": "step", "data": data}


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[str, str]]:
    """Both servers: theirs, ours."""
    with theirs(SCRIPT, SLOTS) as one, ours(TWIN, "--capacity", str(SLOTS)) as other:
        yield one, other


# -- WebSocket ------------------------------------------------------------------------------------


def compared(answer: Any) -> Any:
    """Return what has to be the same; the words of errors have not."""
    if not isinstance(answer, dict) or answer["type"] != "error":
        return answer
    data = answer["data"]
    found = [(each["type"], list(each["loc"])) for each in data.get("errors", [])]
    return [data["code"], sorted(data), found]


FRAMES = {
    "an episode": [
        RESET,
        reset(seed=3, episode_id="me", level=2),
        step(by=1),
        step(by=2, note="x", metadata={"a": 1}),
        step(by=3),
        STATE,
        step(by=4),  # NaN and infinity
        step(by=60),
        step(by=1),
        STATE,
        CLOSE,
    ],
    "a state before anything else": [STATE, CLOSE],
    "an empty reset": [reset(), {"type": "reset", "data": {}}],
    "no JSON": ["{", "", "nonsense", RESET],
    "an unknown type": [{"type": "jump"}, {"type": ""}, {}, {"data": {}}, {"type": 3}, RESET],
    "a bad action": [
        RESET,
        step(),
        step(by="x"),
        step(by=101),
        step(by=1, to=2),
        step(by=None),
        step(by=1.5),
        step(by="7"),
        STATE,
    ],
    "what the environment raises": [reset(level=13), RESET, step(by=13), step(by=1)],
}


@pytest.mark.parametrize("name", FRAMES)
def test_frames(pair: tuple[str, str], name: str) -> None:
    expected, found = ([compared(each) for each in said(url, FRAMES[name])] for url in pair)
    assert found == expected


# Pydantic's errors name the fields of OpenEnv's message there, and ours name what was wrong.
@pytest.mark.parametrize(
    "frame",
    [
        {"type": "step"},
        {"type": "step", "data": 3},
        {"type": "reset", "data": [1]},
        {"type": "state", "data": {}, "more": 1},
        {"type": "reset", "data": {}, "more": 1},
    ],
    ids=str,
)
def test_frames_of_another_form(pair: tuple[str, str], frame: Any) -> None:
    expected, found = (said(url, [RESET, frame, step(by=1)]) for url in pair)
    assert found[0] == expected[0] and found[2] == expected[2]
    assert compared(found[1])[:2] == compared(expected[1])[:2]


def took_a_place(url: str, stack: contextlib.ExitStack) -> bool:
    """Begin a session that lasts as long as a stack, where there is room for it."""
    with contextlib.ExitStack() as trial:
        socket = trial.enter_context(opened(url))
        socket.send(json.dumps(RESET))
        if heard(socket)["type"] != "observation":
            return False
        stack.enter_context(trial.pop_all())
    return True


def test_what_is_said_when_all_places_are_taken(pair: tuple[str, str]) -> None:
    answers = []
    for url in pair:
        with contextlib.ExitStack() as stack:
            for _ in range(SLOTS):
                # Those of earlier tests may not have left yet.
                assert eventually(partial(took_a_place, url, stack))
            late = stack.enter_context(opened(url))
            first, then = heard(late), heard(late)
            assert isinstance(first["data"].pop("message"), str)
            answers.append((first, then))
    assert answers[0] == answers[1]


def test_what_is_said_when_no_environment_can_be_made() -> None:
    answers = []
    with theirs(SCRIPT, SLOTS, "Broken") as one, ours(TWIN.replace("Twin", "Broken")) as other:
        for url in (one, other):
            with opened(url) as socket:
                first, then = heard(socket), heard(socket)
            request = {"jsonrpc": "2.0", "id": 1, "method": "openenv/session/create"}
            status, failed = asked(url, "POST", "/mcp", request)
            for told in (first["data"], failed["error"]):
                assert isinstance(told.pop("message"), str)
            answers.append((first, then, status, failed))
    assert answers[0] == answers[1]


# -- where we differ on purpose (docs/openenv.md) -------------------------------------------------


def test_unknown_arguments_of_a_reset_are_refused(pair: tuple[str, str]) -> None:
    expected, found = (said(url, [reset(sed=1), RESET]) for url in pair)
    assert expected[0]["type"] == "observation"
    assert found[0]["data"]["code"] == "VALIDATION_ERROR" and "sed" in found[0]["data"]["message"]
    assert found[1] == expected[1]


@pytest.mark.parametrize("frame", ["[1]", b"\x00"], ids=["array", "binary"])
def test_a_frame_that_is_no_object_does_not_end_the_session(
    pair: tuple[str, str], frame: Any
) -> None:
    with opened(pair[0]) as socket:
        socket.send(frame)
        assert heard(socket)["data"]["code"] == "SESSION_ERROR"
        assert heard(socket) == 1000
    answers = said(pair[1], [RESET, frame, step(by=1)])
    assert [each["type"] for each in answers] == ["observation", "error", "observation"]


# -- HTTP -----------------------------------------------------------------------------------------


def form(answer: tuple[int, Any]) -> Any:
    """Return what has to be the same of a refusal: where, and what kind."""
    status, content = answer
    if status != 422:
        return status
    return status, [(each["type"], each["loc"]) for each in content["detail"]]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/health", None),
        ("GET", "/state", None),
        ("POST", "/reset", None),
        ("POST", "/reset", {}),
        ("POST", "/reset", {"seed": 3, "episode_id": "me", "level": 2}),
        ("POST", "/step", {"action": {"by": 5}}),
        ("POST", "/step", {"action": {"by": 60}, "timeout_s": 5, "request_id": "x"}),
        ("GET", "/list_environments", None),
        ("GET", "/Twin/splits", None),
        ("GET", "/twin/splits", None),
        ("POST", "/Twin/tasks", {"split": "train"}),
        ("POST", "/Twin/num_tasks", {"split": "train"}),
        ("POST", "/Twin/task", {"split": "train", "index": 2}),
    ],
)
def test_requests(pair: tuple[str, str], method: str, path: str, body: Any) -> None:
    expected, found = (asked(url, method, path, body) for url in pair)
    assert expected[0] == 200 and found == expected


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/reset", {"seed": -1}),
        ("POST", "/reset", {"seed": "x"}),
        ("POST", "/reset", {"episode_id": "x" * 256}),
        ("POST", "/reset", {"level": 13}),
        ("POST", "/step", {}),
        ("POST", "/step", {"action": 1}),
        ("POST", "/step", {"action": {}}),
        ("POST", "/step", {"action": {"by": 1, "to": 1}}),
        ("POST", "/step", {"action": {"by": 1}, "timeout_s": 0}),
        ("POST", "/step", {"action": {"by": 13}}),
        ("POST", "/Twin/task", {"split": "train", "index": 3}),
        ("POST", "/Twin/task", {"split": "train"}),
        ("POST", "/Twin/task_range", {"split": "train"}),
        ("POST", "/Other/task", {"split": "train", "index": 0}),
        ("GET", "/Other/splits", None),
        ("GET", "/nothing", None),
        ("GET", "/reset", None),
    ],
)
def test_refusals(pair: tuple[str, str], method: str, path: str, body: Any) -> None:
    expected, found = (asked(url, method, path, body) for url in pair)
    assert form(found) == form(expected) and expected[0] >= 400


def test_facts(pair: tuple[str, str]) -> None:
    (_, expected), (_, found) = (asked(url, "GET", "/metadata", None) for url in pair)
    assert found.keys() == expected.keys()
    (_, expected), (_, found) = (asked(url, "GET", "/schema", None) for url in pair)
    # Ours describes the actions to agents as well, and tells a truncated episode apart.
    assert found.keys() - expected.keys() == {"actions"} and not expected.keys() - found.keys()
    for kind, schema in expected.items():
        more = {"truncated"} if "observation" in kind else set()
        assert set(found[kind]["properties"]) == set(schema["properties"]) | more
    paths = [set(asked(url, "GET", "/openapi.json", None)[1]["paths"]) for url in pair]
    assert paths[0] <= paths[1]
