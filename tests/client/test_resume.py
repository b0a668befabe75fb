"""The connection is cut; no step is lost, none is done twice."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator

import numpy as np
import pytest

from openenv_gym import errors
from openenv_gym.client import Connection, Loss
from openenv_gym.protocol.limits import Limits
from openenv_gym.providers.thread import ThreadServer
from openenv_gym.server import Server, create_app
from tests.support.cutting import CuttingAddress
from tests.support.worlds import BlockingEnv, CountingEnv


@pytest.fixture
def server() -> Iterator[ThreadServer]:
    running = ThreadServer(Server(create_app(CountingEnv), limits=Limits(resume_grace_s=60.0)))
    yield running
    running.stop()


def test_a_request_cut_inside_its_frame_runs_once(network: CuttingAddress) -> None:
    connection = Connection(network, {})
    connection.call("reset", [None, None])
    for cut_at in range(30):
        network.cut_up = cut_at
        observation = connection.call("step", [cut_at]).value[0]
        assert observation["count"].tolist() == [cut_at + 1, 1, cut_at]
    assert network.cuts >= 20  # a frame of a step has more than 20 bytes
    connection.close()


def test_a_reply_cut_inside_its_frame_is_sent_again(network: CuttingAddress) -> None:
    connection = Connection(network, {"payload_bytes": 300_000})
    connection.call("reset", [None, None])
    for number, cut_at in enumerate([0, 1, 2, 3, 9, 10, 11, 100, 4096, 4097, 65536, 299_000], 1):
        network.cut_down = cut_at
        observation = connection.call("step", [number]).value[0]
        assert observation["count"].tolist() == [number, 1, number]
        assert (observation["payload"] == number % 251).all()
    assert network.cuts == 12
    connection.close()


def test_cuts_lose_nothing_of_what_is_in_shared_memory(server: ThreadServer) -> None:
    network = CuttingAddress(server.address, descriptors=True)
    connection = Connection(network, {"payload_bytes": 300_000})
    connection.call("reset", [None, None])
    frames = []
    for number in range(1, 120):
        setattr(network, "cut_down" if number % 2 else "cut_up", number)
        observation = connection.call("step", [number]).value[0]
        assert observation["count"].tolist() == [number, 1, number]
        assert (observation["payload"] == number % 251).all()
        frames.append(observation["payload"])
    assert network.cuts > 100
    # So little came through the socket that the arrays came by another way, and they are the
    # caller's: later steps have left them alone.
    assert [int(frame[0]) for frame in frames] == list(range(1, 120))
    assert network.bytes_down < 300_000
    connection.close()
    network.close()


def test_a_reset_cut_off_runs_once(network: CuttingAddress) -> None:
    connection = Connection(network, {"reset_s": 0.1})
    network.cut_down = 0
    observation, _ = connection.call("reset", [7, None]).value
    assert observation["count"].tolist() == [0, 1, 0]
    network.cut_up = 5
    observation, _ = connection.call("reset", [8, None]).value
    assert observation["count"].tolist() == [0, 2, 0]
    assert network.cuts == 2
    connection.close()


def test_a_cut_during_a_long_step_waits_for_its_only_execution(network: CuttingAddress) -> None:
    connection = Connection(network, {"step_s": 0.3})
    connection.call("reset", [None, None])
    network.cut_down = 0
    observation = connection.call("step", [1]).value[0]
    assert observation["count"].tolist() == [1, 1, 1]
    assert network.dials == 2
    connection.close()


def test_a_resume_that_is_cut_itself_is_tried_again(network: CuttingAddress) -> None:
    connection = Connection(network, {})
    connection.call("reset", [None, None])
    for number in range(1, 6):
        network.cut_down = 10
        # The answer of the first attempt is cut, then the handshake of the second one, and so on:
        # each cut happens once, so arm a few in a row.
        cuts = iter([60, 130, 250, 400])
        dial = network.target.dial

        def dial_again(timeout_s: float, why_lost: Loss, cuts: Iterator[int] = cuts, dial=dial):  # type: ignore[no-untyped-def]
            network.cut_down = next(cuts, None)
            return dial(timeout_s, why_lost)

        network.target.dial = dial_again  # type: ignore[method-assign]
        observation = connection.call("step", [number]).value[0]
        network.target.dial = dial  # type: ignore[method-assign]
        assert observation["count"].tolist() == [number, 1, number]
    connection.close()


def test_random_cuts_leave_the_trajectory_as_it_is(network: CuttingAddress) -> None:
    dice = random.Random(5)
    connection = Connection(network, {"payload_bytes": 1000})
    connection.call("reset", [None, None])
    counts = []
    for number in range(300):
        if dice.random() < 0.3:
            network.cut_up = dice.randrange(60)
        if dice.random() < 0.3:
            network.cut_down = dice.randrange(1500)
        counts.append(connection.call("step", [number]).value[0]["count"].tolist())
    assert counts == [[number + 1, 1, number] for number in range(300)]
    assert network.cuts > 50
    connection.close()


def test_an_abandoned_request_does_not_shift_replies(blocking: type[BlockingEnv]) -> None:
    server = ThreadServer(Server(create_app(blocking)))
    connection = Connection(server.address, {})
    connection.call("reset", [None, None])
    with pytest.raises(errors.DeadlineExceededError, match="No answer to step within"):
        connection.call("step", [1], timeout_s=0.05)
    blocking.gate.set()
    observation = connection.call("reset", [None, None]).value[0]
    assert observation["count"].tolist() == [1, 2, 1]
    connection.close()
    server.stop()


def test_a_session_that_expired_is_an_error(server: ThreadServer, network: CuttingAddress) -> None:
    connection = Connection(network, {})
    connection.call("reset", [None, None])
    for session in server.server.sessions.each():
        session.end()
    with pytest.raises(errors.SessionLostError, match="ended or expired"):
        connection.call("step", [1])


def test_an_older_connection_is_fenced(server: ThreadServer) -> None:
    """Two clients hold the same token: the one that resumed last speaks for the session."""
    first = Connection(server.address, {})
    first.call("reset", [None, None])
    second = copy.copy(first)
    second._session = copy.deepcopy(first._session)
    second._transport = None
    second._session.lost()
    assert second.call("step", [5]).value[0]["count"].tolist() == [1, 1, 5]
    with pytest.raises(errors.SessionLostError, match="taken over by a newer connection"):
        first.call("step", [6])
    assert second.call("step", [7]).value[0]["count"].tolist() == [2, 1, 7]
    second.close()


def test_observations_never_share_memory(server: ThreadServer) -> None:
    connection = Connection(server.address, {"payload_bytes": 5000})
    first = connection.call("reset", [None, None]).value[0]
    second = connection.call("step", [1]).value[0]
    third = connection.call("step", [2]).value[0]
    assert not np.shares_memory(first["payload"], second["payload"])
    assert not np.shares_memory(second["payload"], third["payload"])
    assert (second["payload"] == 1).all() and (third["payload"] == 2).all()
    assert third["payload"].flags.writeable and third["payload"].flags.aligned
    connection.close()
