"""What a server meant that answered the opening request with anything but a WebSocket."""

from __future__ import annotations

import re
from http import HTTPStatus

from websockets.exceptions import InvalidHandshake
from websockets.http11 import Response

from openenv_gym import errors
from openenv_gym.client.address import Address
from openenv_gym.protocol.limits import SUBPROTOCOL


__all__ = ["explain_refusal"]

_SUBPROTOCOLS = re.compile(r"openenv-gym\.v\d+")
_SHOWN_BYTES = 300


def explain_refusal(
    address: Address, response: Response, reason: BaseException | None = None
) -> errors.OpenEnvGymError:
    """Return the error that a refused handshake stands for.

    Args:
        address: Where the server is.
        response: Its answer.
        reason: What the `websockets` library found wrong with it.
    """
    where = f"The server at {address}"
    status = response.status_code
    body = bytes(response.body or b"")[:_SHOWN_BYTES].decode(errors="replace").strip()
    body = errors.printable(body)
    data = {"status": status}
    if status == HTTPStatus.UNAUTHORIZED:
        return errors.UnauthorizedError(
            f"{where} wants a token, or another one.",
            hint="Set OPENENV_TOKEN, or OPENENV_TOKEN_FILE.",
            data=data,
        )
    spoken = response.headers.get("Sec-WebSocket-Protocol", "")
    named = _SUBPROTOCOLS.findall(f"{spoken} {body}")
    if named and SUBPROTOCOL not in named:
        return errors.VersionMismatchError(
            f"{where} speaks {named[0]}, this client {SUBPROTOCOL}.",
            hint="Install matching versions of openenv-gym on both sides.",
        )
    if isinstance(reason, InvalidHandshake) and status == HTTPStatus.SWITCHING_PROTOCOLS:
        return errors.NotAnOpenEnvServerError(f"{where} failed the handshake: {reason}.")
    return errors.NotAnOpenEnvServerError(
        f"{where} refused the WebSocket with status {status}: {body or reason}", data=data
    )
