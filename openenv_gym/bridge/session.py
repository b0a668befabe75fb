"""A session with an OpenEnv server, for blocking callers."""

from __future__ import annotations

import contextlib
import time
from typing import Any

from openenv_gym import errors
from openenv_gym.client import Address
from openenv_gym.client.background import run_blocking
from openenv_gym.client.json_connection import JsonConnection
from openenv_gym.client.web_socket import WebSocket, WebSocketOptions
from openenv_gym.protocol.limits import SUBPROTOCOL
from openenv_gym.protocol.openenv_json import RequestType


__all__ = ["BridgeSession", "close_socket", "probe"]

_FREE_S = 5.0  # so long the place of an earlier session may take to be free again
_ASK_AGAIN_S = 0.1


def probe(address: Address, options: WebSocketOptions) -> WebSocket | None:
    """Find out which protocol a server speaks.

    Returns:
        A WebSocket on which it speaks OpenEnv's JSON, and which is a session with it already; None
        where it speaks our protocol.

    Raises:
        OpenEnvGymError: There is no server; see `WebSocket.open`.
    """
    socket = run_blocking(WebSocket.open(address, options, subprotocols=[SUBPROTOCOL]))
    if socket.subprotocol is None:
        return socket
    close_socket(socket)
    return None


def close_socket(socket: WebSocket) -> None:
    """Close a WebSocket that nobody needs."""
    run_blocking(socket.close())


class BridgeSession:
    """One session at a time; another one is opened by `renew` where the first is gone.

    Args:
        address: Where the server is.
        options: How to connect.
        timeout_s: Limit of each request.
        wait_s: How long to wait for a place, beside the few seconds that a place takes to be free
            whose session has just ended.
        socket: What `probe` returned: the first session.

    Raises:
        CapacityError: There is no free place.
        OpenEnvGymError: There is no session to be had; see `JsonConnection.open`.
    """

    def __init__(
        self,
        address: Address,
        options: WebSocketOptions,
        *,
        timeout_s: float,
        wait_s: float,
        socket: WebSocket | None = None,
    ) -> None:
        self._address = address
        self._options = options
        self._timeout_s = timeout_s
        self._wait_s = wait_s
        self._closed = False
        self._connection = self._open(socket)

    def request(self, kind: RequestType, data: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send a request and return the data of its reply; see `JsonConnection.request`."""
        return run_blocking(self._connection.request(kind, data))

    def renew(self) -> None:
        """Open another session where this one is gone, with whatever was in it.

        Raises:
            OpenEnvGymError: There is none to be had.
        """
        if self._connection.closed and not self._closed:
            self._connection = self._open()

    def close(self) -> None:
        """End the session; safe to repeat."""
        self._closed = True
        run_blocking(self._connection.close())

    def _open(self, socket: WebSocket | None = None) -> JsonConnection:
        end_s = time.monotonic() + self._wait_s + _FREE_S
        while True:
            if socket is None:
                socket = run_blocking(WebSocket.open(self._address, self._options))
            connection = JsonConnection(socket, message_timeout_s=self._timeout_s)
            try:
                self._greet(connection)
                return connection
            except BaseException as error:
                with contextlib.suppress(errors.OpenEnvGymError):
                    run_blocking(connection.close())
                full = isinstance(error, errors.CapacityError)
                if not full or time.monotonic() + _ASK_AGAIN_S >= end_s:
                    raise
            socket = None
            time.sleep(_ASK_AGAIN_S)

    def _greet(self, connection: JsonConnection) -> None:
        """Learn whether there is a place: a server that has none says so in place of a reply.

        Asking for the state does no harm. Some environments have none before the first reset.
        """
        try:
            run_blocking(connection.request(RequestType.STATE))
        except (errors.EnvironmentFailedError, errors.ProtocolError):
            if connection.closed:
                raise
