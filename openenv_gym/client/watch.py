"""Watching a session that somebody else runs (docs/protocol.md, section 4.9)."""

from __future__ import annotations

from typing import Any

from openenv_gym import errors
from openenv_gym._version import __version__
from openenv_gym.client.address import Address
from openenv_gym.client.transport import Transport, encode_message
from openenv_gym.protocol.limits import VERSION, Limits
from openenv_gym.protocol.messages import (
    Failure,
    Goaway,
    Hello,
    Seen,
    Welcome,
    check_version,
    error_from_wire,
    read_server_message,
)


__all__ = ["Watch"]

_CONNECT_S = 10.0


class Watch:
    """What the operations of a session lead to, as they run; who runs it does not notice.

    Args:
        address: Where the server is.
        session: Public name of the session (``GET /sessions`` lists them).
        index: Which of several sub-environments.
        token: Credential for the server.
        timeout_s: Limit of the handshake.

    Attributes:
        watched: What the session holds: ``environment``, ``num_envs``.

    Raises:
        SessionLostError: There is no such session.
        ForbiddenOperationError: It may not be watched.
        InvalidOptionError: It has no such sub-environment.
        ServerUnreachableError: Nothing answers.
    """

    def __init__(
        self,
        address: Address,
        session: str,
        *,
        index: int = 0,
        token: str | None = None,
        timeout_s: float = _CONNECT_S,
    ) -> None:
        self._transport = Transport(
            address,
            headers={"Authorization": f"Bearer {token}"} if token else {},
            timeout_s=timeout_s,
            max_frame_bytes=Limits.max_frame_bytes,
        )
        body = {
            "version": list(VERSION),
            "agent": f"openenv-gym/{__version__}",
            "features": [],
            "max_frame_bytes": Limits.max_frame_bytes,
            "watch": {"session": session, "index": index},
        }
        try:
            self._transport.send(encode_message(Hello(body).to_wire()))
            answer = read_server_message(self._transport.receive_message(timeout_s))
            if isinstance(answer, Failure):
                raise error_from_wire(answer.error)
            if not isinstance(answer, Welcome):
                raise errors.ProtocolError(f"Expected WELCOME, got {type(answer).__name__}.")
            check_version(answer.body, peer="server")
            self.watched: dict[str, Any] = dict(answer.body.get("watch") or {})
        except BaseException:
            self._transport.close(polite=False)
            raise

    def next(self, timeout_s: float) -> dict[str, Any] | None:
        """Return what was seen next; None where nothing was within the time.

        Returns:
            ``op`` ("reset" or "step"), ``action``, ``observation``, ``reward``, ``done``,
            ``truncated``, ``info``, ``episode``, ``step``, ``return``, ``frame`` (what the
            environment draws, or None), ``skipped`` (how many were not told since the last one).

        Raises:
            SessionClosedError: The session has ended.
            OpenEnvGymError: What the server says instead.
        """
        while True:
            try:
                answer = read_server_message(self._transport.receive_message(timeout_s))
            except TimeoutError:
                return None
            except OSError as error:
                raise errors.SessionClosedError("The watched session has ended.") from error
            if isinstance(answer, Seen):
                return answer.body
            if isinstance(answer, Failure):
                raise error_from_wire(answer.error)
            if not isinstance(answer, Goaway):
                raise errors.ProtocolError(f"Expected SEEN, got {type(answer).__name__}.")

    def close(self) -> None:
        """Watch no more; safe to call twice."""
        self._transport.close(polite=False)
