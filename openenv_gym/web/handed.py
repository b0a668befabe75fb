"""Answering connections that another process has accepted, and read the beginning of.

Each connection is for one request: the server decides about each whether whoever makes it may.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import re
import signal
import socket
from typing import Any

import uvicorn

from openenv_gym.server.workers.channel import receive, split_connection


__all__ = ["PEER_HEADER", "answer_handed"]

PEER_HEADER = "x-openenv-peer"
"""The header in which a request tells where it comes from."""

_FORWARDED = re.compile(rb"\r\nx-forwarded-proto:", re.IGNORECASE)
_STOP_S = 1.0


async def answer_handed(app: Any, channel: socket.socket, *, tls: bool) -> None:
    """Answer the connections that come through a channel, until its other end is gone.

    Args:
        app: An ASGI application.
        channel: Brings the connections (`openenv_gym.server.workers.channel`).
        tls: They came by TLS, of which nothing is left to see.
    """
    config = uvicorn.Config(
        app,
        http="h11",
        ws="websockets-sansio",
        log_level="warning",
        lifespan="on",
        proxy_headers=False,
        server_header=False,
        ws_ping_interval=20.0,
    )
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    await server.lifespan.startup()
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, over.set)
    channel.setblocking(False)
    tasks: set[asyncio.Task[None]] = set()

    def on_letter() -> None:
        while True:
            try:
                letter = receive(channel, trusted=True)
            except BlockingIOError:
                return
            if letter is None:
                loop.remove_reader(channel)
                over.set()
                return
            peer, _, said = split_connection(letter.data)
            said = _introduced(said, peer, tls=tls)
            for descriptor in letter.descriptors:
                sock = socket.socket(fileno=descriptor)
                task = loop.create_task(_answer(config, server, sock, said))
                tasks.add(task)
                task.add_done_callback(tasks.discard)

    loop.add_reader(channel, on_letter)
    await over.wait()
    for connection in list(server.server_state.connections):
        connection.shutdown()
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(server.lifespan.shutdown(), _STOP_S)


async def _answer(
    config: uvicorn.Config, server: uvicorn.Server, sock: socket.socket, said: bytes
) -> None:
    loop = asyncio.get_running_loop()
    sock.setblocking(False)
    make = functools.partial(
        config.http_protocol_class,
        config=config,
        server_state=server.server_state,
        app_state=server.lifespan.state,
        _loop=loop,
    )
    try:
        await loop.connect_accepted_socket(lambda: _Begun(make(), said), sock)
    except OSError:
        sock.close()


class _Begun(asyncio.Protocol):
    """A connection that has said something already."""

    def __init__(self, protocol: Any, said: bytes) -> None:
        self._protocol = protocol
        self._said = said

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Hear what was said before whatever comes now."""
        assert isinstance(transport, asyncio.Transport)
        transport.set_protocol(self._protocol)
        self._protocol.connection_made(transport)
        self._protocol.data_received(self._said)


def _introduced(said: bytes, peer: str, *, tls: bool) -> bytes:
    """Return a request with headers about where it comes from, before any of its own."""
    line, _, rest = said.partition(b"\r\n")
    added = f"{PEER_HEADER}: {peer}".encode("latin-1", "replace")
    if tls and not _FORWARDED.search(said.partition(b"\r\n\r\n")[0]):
        added += b"\r\nX-Forwarded-Proto: https"
    return line + b"\r\n" + added + b"\r\n" + rest
