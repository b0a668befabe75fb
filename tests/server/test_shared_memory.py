"""Large observations in memory that client and server have mapped (protocol, section 4.6)."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from openenv_gym.client import TcpAddress
from openenv_gym.client.shared_memory import share_memory
from openenv_gym.client.transport import Transport, encode_message
from openenv_gym.protocol.codec import decode_packet
from openenv_gym.server import Server, create_app
from tests.server.conftest import RawClient, Site
from tests.support.waiting import eventually
from tests.support.worlds import CountingEnv


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="anonymous files are Linux's")

PAYLOAD = 100_000


def hello(client: RawClient, *features: str, **more: Any) -> Any:
    """Say HELLO and return what the server answered."""
    opening = {"options": {"payload_bytes": PAYLOAD}, "wait_s": 0.0}
    body = {"version": [1, 0], "features": list(features), "open": opening, **more}
    client.send(0, body)
    return client.receive()


def send_with(client: RawClient, fds: list[int], *message: Any) -> None:
    """Send a message with descriptors along."""
    data = b"".join(encode_message(list(message)))
    assert socket.send_fds(client.transport._socket, [data], fds) == len(data)


def receive(client: RawClient, memory: memoryview | None) -> tuple[list[Any], bool]:
    """Return a message, and whether its arrays came in the memory."""
    data = client.transport.receive(10)
    return decode_packet(data, memory), bool(data[3] & 0x80)


@pytest.fixture
def client(site: Site) -> RawClient:
    site.start()
    return site.client()


@pytest.fixture
def memory(client: RawClient) -> Iterator[memoryview]:
    """Memory that a session of `client` has."""
    assert hello(client, "shared_memory", "flying")[1]["features"] == ["shared_memory"]
    shared = share_memory(PAYLOAD + 1000)
    send_with(client, [shared.descriptor], 4, PAYLOAD + 1000)
    os.close(shared.descriptor)
    yield shared.view


def test_arrays_are_in_the_memory(client: RawClient, memory: memoryview) -> None:
    for number in range(5):
        client.send(
            1, number + 1, number, "step" if number else "reset", [number] if number else []
        )
        reply, there = receive(client, memory)
        assert there
        assert (reply[2][0]["payload"] == number).all()


def test_what_is_not_acknowledged_stays(client: RawClient, memory: memoryview) -> None:
    client.send(1, 1, 0, "reset", [])
    client.send(1, 2, 0, "step", [1])
    client.send(1, 3, 0, "step", [2])
    (first, there), *others = [receive(client, memory) for _ in range(3)]
    assert there
    assert (first[2][0]["payload"] == 0).all()
    for number, (reply, there) in enumerate(others, 1):
        assert not there
        assert (reply[2][0]["payload"] == number).all()
    client.send(1, 4, 0, "step", [3])
    assert not receive(client, memory)[1]
    client.send(3, 4)
    client.send(1, 5, 4, "step", [4])
    reply, there = receive(client, memory)
    assert there
    assert (reply[2][0]["payload"] == 4).all()


def test_a_resume_brings_the_same_bytes(site: Site) -> None:
    site.start()
    client = site.client()
    welcome = hello(client, "shared_memory")[1]
    shared = share_memory(PAYLOAD + 1000)
    send_with(client, [shared.descriptor], 4, PAYLOAD + 1000)
    os.close(shared.descriptor)
    client.send(1, 1, 0, "reset", [])
    receive(client, shared.view)
    client.send(1, 2, 1, "step", [1])
    client.transport.receive(10)  # and lose it
    client.close()
    again = site.client()
    proof = {"session": welcome["session"], "token": welcome["token"], "epoch": 2, "ack": 1}
    again.send(0, {"version": [1, 0], "features": ["shared_memory"], "resume": proof})
    assert again.receive()[1]["features"] == []
    reply, there = receive(again, shared.view)
    assert there
    assert (reply[2][0]["payload"] == 1).all()
    again.send(1, 3, 2, "step", [2])
    reply, there = receive(again, shared.view)
    assert there
    assert (reply[2][0]["payload"] == 2).all()


def test_a_descriptor_that_was_lost_on_the_way(client: RawClient) -> None:
    hello(client, "shared_memory")
    client.send(4, 200_000)
    client.send(1, 1, 0, "reset", [])
    reply, there = receive(client, None)
    assert not there
    assert reply[2][0]["payload"].shape == (PAYLOAD,)


def test_more_than_fits_travels_whole(client: RawClient) -> None:
    hello(client, "shared_memory")
    shared = share_memory(PAYLOAD - 1)
    send_with(client, [shared.descriptor], 4, PAYLOAD - 1)
    os.close(shared.descriptor)
    client.send(1, 1, 0, "reset", [])
    assert not receive(client, shared.view)[1]


@pytest.mark.parametrize("kind", ["unsealed", "short", "pipe", "too large"])
def test_what_could_harm_the_server_is_refused(site: Site, kind: str) -> None:
    site.start()
    client = site.client()
    hello(client, "shared_memory")
    size = 1 << 40 if kind == "too large" else 4096
    if kind == "pipe":
        fd, other = os.pipe()
        os.close(other)
    elif kind == "unsealed":
        fd = os.memfd_create("test", os.MFD_ALLOW_SEALING)
        os.ftruncate(fd, 4096)
    else:
        fd = share_memory(4095).descriptor
    send_with(client, [fd], 4, size)
    os.close(fd)
    error = client.receive()
    assert (error[0], error[1], error[2]["code"]) == (18, None, "protocol_error")
    assert "SHARE came with" in error[2]["message"]
    assert site.client().open()[0] == 16  # others are served


@pytest.mark.parametrize("kind", ["twice", "late", "unasked"])
def test_out_of_place(client: RawClient, kind: str) -> None:
    hello(client, *[] if kind == "unasked" else ["shared_memory"])
    shared = share_memory(4096)
    if kind == "late":
        client.send(1, 1, 0, "reset", [])
        client.receive()
    for _ in range(2 if kind == "twice" else 1):
        send_with(client, [shared.descriptor], 4, 4096)
    os.close(shared.descriptor)
    error = client.receive()
    assert error[2]["code"] == "protocol_error"
    assert "twice, after a request, or without" in error[2]["message"]


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
def test_descriptors_that_nobody_asked_for_do_not_stay(site: Site) -> None:
    site.start()
    client = site.client()
    before = len(os.listdir("/proc/self/fd"))  # the server is in this process
    hello(client, "shared_memory")
    read, write = os.pipe()
    for id_ in range(1, 20):
        send_with(client, [read] * 10, 1, id_, id_ - 1, "reset", [])
        client.receive()
    os.close(read)
    os.close(write)
    # An earlier test's may have closed meanwhile.
    assert eventually(lambda: len(os.listdir("/proc/self/fd")) <= before)
    client.close()


def test_over_tcp_there_is_none() -> None:
    server = Server(create_app(CountingEnv))
    host, port = server.listen_tcp("127.0.0.1", 0)
    server.start()
    try:
        transport = Transport(
            TcpAddress(host, port), headers={}, timeout_s=10, max_frame_bytes=1 << 20
        )
        body = {"version": [1, 0], "features": ["shared_memory"], "open": {"options": {}}}
        transport.send(encode_message([0, body]))
        assert transport.receive_message(10)[1]["features"] == []
        transport.close(polite=False)
    finally:
        server.stop()


def test_arrays_of_a_session_are_its_own(site: Site) -> None:
    """Two sessions, each with memory: neither sees the other's."""
    site.start()
    clients, views = [site.client(), site.client()], []
    for client in clients:
        hello(client, "shared_memory")
        shared = share_memory(PAYLOAD + 1000)
        send_with(client, [shared.descriptor], 4, PAYLOAD + 1000)
        os.close(shared.descriptor)
        views.append(shared.view)
        client.send(1, 1, 0, "reset", [])
        receive(client, shared.view)
    clients[0].send(1, 2, 1, "step", [1])
    receive(clients[0], views[0])
    assert np.frombuffer(views[0], np.uint8)[:PAYLOAD].max() == 1
    assert np.frombuffer(views[1], np.uint8)[:PAYLOAD].max() == 0
