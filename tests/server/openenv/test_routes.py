"""OpenEnv's HTTP routes."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from openenv_gym.server import create_app, load_app
from tests.server.openenv.conftest import Serve
from tests.server.openenv.worlds import Walk


def test_a_reset_begins_an_episode_of_its_own(serve: Serve) -> None:
    site = serve()
    expected = {
        "observation": {"at": 5, "picture": [[5, 5], [5, 5]], "metadata": {}},
        "reward": None,
        "done": False,
        "metadata": None,
    }
    assert site.ask("POST", "/reset", {"seed": 5, "episode_id": "me"}).json() == expected
    assert site.ask("POST", "/reset", {"seed": 5}).json() == expected
    for empty in (None, b"", {}):
        assert site.ask("POST", "/reset", empty).json()["observation"]["at"] == 0


def test_a_step_is_the_first_of_an_episode(serve: Serve) -> None:
    site = serve()
    answer = site.ask("POST", "/step", {"action": {"by": 7}, "timeout_s": 5, "request_id": "1"})
    metadata = {"by": 7, "odd": [None, {"1": [2, 3]}]}
    assert answer.json() == {
        "observation": {"at": 7, "picture": [[7, 7], [7, 7]], "metadata": metadata},
        "reward": 1.5,
        "done": False,
        "metadata": metadata,
    }


def test_the_state_is_that_of_a_new_environment(serve: Serve) -> None:
    answer = serve().ask("GET", "/state")
    assert answer.json() == {"episode_id": None, "step_count": 0, "level": 0}


@pytest.mark.parametrize(
    ("path", "body", "where", "kind"),
    [
        ("/reset", {"seed": -1}, ["body", "seed"], "greater_than_equal"),
        ("/reset", {"episode_id": "x" * 256}, ["body", "episode_id"], "string_too_long"),
        ("/reset", {"sed": 1}, ["sed"], "value_error"),
        ("/reset", [], ["body"], "model_type"),
        ("/reset", b"{", ["body"], "json_invalid"),
        ("/reset", b"\xff", ["body"], "json_invalid"),
        ("/step", None, ["body"], "model_type"),
        ("/step", {}, ["body", "action"], "missing"),
        ("/step", {"action": 3}, ["body", "action"], "dict_type"),
        ("/step", {"action": {"by": "x"}}, ["by"], "int_parsing"),
        ("/step", {"action": {"by": 1, "to": 2}}, ["to"], "extra_forbidden"),
        ("/step", {"action": {"by": 1}, "timeout_s": 0}, ["body", "timeout_s"], "greater_than"),
    ],
)
def test_what_is_wrong_is_listed(serve: Serve, path, body, where, kind) -> None:  # type: ignore[no-untyped-def]
    answer = serve().ask("POST", path, body)
    assert answer.status == 422
    found = answer.json()["detail"][0]
    assert (found["loc"], found["type"]) == (where, kind) and found["msg"]


def test_what_the_environment_raises_is_an_error_of_the_server(serve: Serve) -> None:
    site = serve()
    answer = site.ask("POST", "/reset", {"level": 13})
    assert (answer.status, answer.json()) == (500, {"detail": "no thirteenth floor"})
    for by, detail in [(13, "bad luck"), (14, "3")]:
        answer = site.ask("POST", "/step", {"action": {"by": by}})
        assert (answer.status, answer.json()) == (500, {"detail": detail})


def test_an_environment_that_cannot_be_made(serve: Serve) -> None:
    site = serve(create_app(Walk, name="walk").with_options({"start": 1}))
    assert site.ask("POST", "/reset").json()["observation"]["at"] == 1

    def make(size: int) -> Walk:
        return Walk(size)

    answer = serve(create_app(make)).ask("POST", "/reset")
    assert answer.status == 500 and "'size' is missing" in answer.json()["detail"]


def test_requests_count_among_the_sessions(serve: Serve) -> None:
    site = serve(capacity=1)
    with contextlib.closing(site.session().socket) as socket:
        socket.send('{"type":"state"}')
        socket.recv(10)
        answer = site.ask("POST", "/reset")
        assert answer.status == 503
        assert answer.json()["active_sessions"] == answer.json()["max_sessions"] == 1
        assert site.ask("GET", "/health").status == 200
    # Requests one after the other leave nothing behind.
    for _ in range(5):
        assert site.ask("POST", "/reset").status in (200, 503)
    assert site.ask("POST", "/reset").status == 200


def test_facts(serve: Serve) -> None:
    site = serve(create_app(Walk, name="walk", version="7", description="A line"))
    assert site.ask("GET", "/metadata").json() == {
        "name": "walk",
        "description": "A line",
        "version": "7",
        "author": None,
        "readme_content": None,
        "documentation_url": None,
    }
    schemas = site.ask("GET", "/schema").json()
    assert {"action", "observation", "state", "reset_observation"} <= set(schemas)
    assert schemas["action"]["properties"]["by"]["maximum"] == 1000
    assert schemas["observation"] == schemas["reset_observation"]
    assert "level" in schemas["state"]["properties"]
    description = site.ask("GET", "/openapi.json").json()
    assert description["openapi"].startswith("3.")
    assert description["info"]["title"] == "OpenEnv Environment HTTP API"
    assert description["info"]["version"] == "7"
    assert {"/reset", "/step", "/state", "/schema", "/health"} <= set(description["paths"])
    step = description["paths"]["/step"]["post"]["requestBody"]["content"]["application/json"]
    assert step["schema"]["properties"]["action"] == {"$ref": "#/components/schemas/Action"}
    for path in ("/docs", "/redoc"):
        page = site.ask("GET", path)
        assert page.headers["Content-Type"].startswith("text/html")
        assert b"openapi.json" in page.body and b"//" not in page.body.replace(b"://", b"")


def test_references_of_schemas_hold_in_the_description(serve: Serve) -> None:
    description = serve(load_app("atari_env")).ask("GET", "/openapi.json").json()

    def follow(value: object) -> None:
        if isinstance(value, dict):
            reference = value.get("$ref")
            if isinstance(reference, str):
                found: object = description
                for part in reference.removeprefix("#/").split("/"):
                    assert isinstance(found, dict) and part in found, reference
                    found = found[part]
            for each in value.values():
                follow(each)
        elif isinstance(value, list):
            for each in value:
                follow(each)

    follow(description)


def test_a_package_tells_of_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "# Echo" in load_app("echo_env").metadata()["readme_content"]
    other = tmp_path / "page.md"
    other.write_text("another page")
    monkeypatch.setenv("ENV_README_PATH", str(other))
    assert load_app("echo_env").metadata()["readme_content"] == "another page"
    monkeypatch.setenv("ENV_README_PATH", str(tmp_path / "missing"))
    assert load_app("echo_env").metadata()["readme_content"] is None
