"""The server as the page's program sees it: sessions of its own, and those of others."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from openenv_gym import errors
from openenv_gym.client import ChannelAddress, Connection
from openenv_gym.client.watch import Watch


__all__ = ["Service"]

_OPEN_S = 120.0
_LIST_S = 5.0


class Service:
    """The way to the server that started the page.

    Args:
        channel: Takes connected sockets.
        token: Credential.
        facts: What the server says about itself: ``name``, ``description`` and so on.
    """

    def __init__(self, channel: socket.socket, token: str | None, facts: Mapping[str, Any]) -> None:
        self.facts = facts
        self._channel = channel
        self._token = token

    def open(self, options: dict[str, Any], peer: str) -> Connection:
        """Open a session for somebody's tab.

        Raises:
            OpenEnvGymError: The session cannot be opened.
        """
        return Connection(self._address(peer), options, token=self._token, timeout_s=_OPEN_S)

    def watch(self, session: str, index: int, peer: str) -> Watch:
        """Watch somebody's session; see `Watch`."""
        return Watch(self._address(peer), session, index=index, token=self._token)

    def sessions(self, peer: str) -> list[dict[str, Any]]:
        """Return what the server says about its sessions.

        Raises:
            ForbiddenOperationError: Nobody may see those of others.
            ServerUnreachableError: It does not answer.
        """
        line = http.client.HTTPConnection("localhost", timeout=_LIST_S)
        line.sock = self._address(peer).dial(_LIST_S)
        line.sock.settimeout(_LIST_S)
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        with contextlib.closing(line):
            try:
                line.request("GET", "/sessions", headers=headers)
                answer = line.getresponse()
                body = answer.read()
            except OSError as error:
                raise errors.ServerUnreachableError(f"The server is gone: {error}.") from error
        if answer.status != HTTPStatus.OK:
            raise errors.ForbiddenOperationError(body.decode(errors="replace").strip())
        sessions: list[dict[str, Any]] = json.loads(body)["sessions"]
        return sessions

    def _address(self, peer: str) -> ChannelAddress:
        return ChannelAddress(self._channel, str(self.facts.get("name", "server")), peer=peer)
