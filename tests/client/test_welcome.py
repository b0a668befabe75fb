"""What a server says of itself is not believed as it is."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from openenv_gym import errors
from openenv_gym.protocol.messages import error_from_wire
from tests.client.scripted import connect, say, upgrade, welcome


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("action_space", None),
        ("observation_space", [1]),
        ("metadata", "x"),
        ("render_mode", 3),
        ("observables", 5),
        ("observables", [["x"]]),
        ("rng", 5),
        ("time_limit", -3),
        ("time_limit", 2.5),
    ],
)
def test_a_welcome_with_a_value_of_another_type(fake: Any, key: str, value: Any) -> None:
    spaces = {"action_space": {}, "observation_space": {}}

    def script(sock: socket.socket) -> None:
        upgrade(sock)
        sock.recv(4096)
        say(sock, 16, welcome(environment={**spaces, key: value}))

    with pytest.raises(errors.ProtocolError, match=f"environment has {key}=.*expected"):
        connect(fake(script))


def test_control_characters_of_a_server_do_nothing_to_a_terminal() -> None:
    wire = {"code": "environment_failed", "message": "\x1b[2J\x9bhi\n", "data": {"type": "OSError"}}
    assert str(error_from_wire(wire)) == "\\x1b[2J\\x9bhi\n"
