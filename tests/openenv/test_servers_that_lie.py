"""`EnvClient` on servers that say something else than what they should."""

from __future__ import annotations

from typing import Any

import pytest

from openenv_gym import GenericEnvClient, errors
from tests.openenv.worlds import Move, WalkClient
from tests.support.fake_openenv import FakeOpenEnv, observation


@pytest.mark.parametrize(
    ("reply", "field"),
    [
        (observation({"at": "far"}), "at"),
        (observation({"at": 1, "picture": [[1, 2], [3, None]]}), "picture"),
        (observation({"at": 1}), "picture"),
        (observation({"at": 1, "picture": [[0, 0], [0, 0]], "extra": 1}), "extra"),
        (observation({"at": 1, "picture": [[0, 0], [0, 0]]}, reward="much"), "reward"),
        ({"type": "observation", "data": {"observation": [1]}}, "observation"),
        ({"type": "observation", "data": {"observation": {}, "done": "no"}}, "done"),
        ({"type": "observation", "data": {"observation": {"metadata": 3}}}, "metadata"),
    ],
)
def test_a_server_that_lies_is_told_by_the_field_and_the_session_goes_on(
    reply: dict[str, Any], field: str
) -> None:
    def script(session: Any, message: dict[str, Any]) -> Any:
        if message["type"] == "reset":
            return reply
        return observation({"at": 1, "picture": [[0, 0], [0, 0]]})

    with FakeOpenEnv(script) as fake, WalkClient(base_url=fake.url).sync() as client:
        with pytest.raises(errors.ProtocolError) as caught:
            client.reset()
        assert caught.value.field == field
        assert client.step(Move(by=1)).observation.at == 1


@pytest.mark.parametrize("metadata", [{"truncated": True}, {"TimeLimit.truncated": True}])
def test_truncation_is_read_from_the_metadata_of_either_place(metadata: dict[str, Any]) -> None:
    replies = [
        observation({}, done=True, metadata=metadata),
        {"type": "observation", "data": {"observation": {"metadata": metadata}, "done": True}},
        observation({}, done=True),
        observation({}, metadata=metadata),
    ]

    def script(session: Any, message: dict[str, Any]) -> Any:
        return replies[session.server.requests.index(message)]

    with FakeOpenEnv(script) as fake, GenericEnvClient(base_url=fake.url).sync() as client:
        results = [client.step({"n": n}) for n in range(4)]
        assert [(r.done, r.truncated) for r in results] == [
            (True, True),
            (True, True),
            (True, False),
            (False, False),
        ]
