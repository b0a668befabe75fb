"""One HTTP request with a limit for all of it, to any address that a client can dial."""

from __future__ import annotations

import http.client
import io
import socket
import ssl
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from openenv_gym import errors
from openenv_gym._version import __version__
from openenv_gym.client import Address, TcpAddress
from openenv_gym.client.address import explain_tls


__all__ = ["http_get"]


def http_get(
    address: Address,
    path: str,
    *,
    headers: Mapping[str, str],
    timeout_s: float,
    max_bytes: int,
    ssl_context: ssl.SSLContext | None = None,
) -> tuple[int, bytes]:
    """Return the status of a page and its body.

    Args:
        address: Where the server is; the path of its URL comes before `path`.
        path: The page.
        headers: Further headers.
        timeout_s: For everything: a server that sends a byte now and then gains nothing.
        max_bytes: Largest body that is taken.
        ssl_context: For TLS; None trusts what the system trusts.

    Raises:
        ServerUnreachableError: Nothing answers, or not in time; `CertificateError` where its
            certificate is not trusted.
        NotAnOpenEnvServerError: What answers does not speak HTTP, or says too much.
    """
    end_s = time.monotonic() + timeout_s
    prefix = address.prefix if isinstance(address, TcpAddress) else ""
    host = f"{address.host}:{address.port}" if isinstance(address, TcpAddress) else "localhost"
    sock = _dial(address, timeout_s, ssl_context)
    try:
        connection = http.client.HTTPConnection(host)
        connection.response_class = http.client.HTTPResponse
        connection.sock = _Limited(sock, end_s)
        connection.request(
            "GET",
            prefix + path,
            headers={
                "Accept": "application/json",
                "User-Agent": f"openenv-gym/{__version__}",
                "Connection": "close",
                **headers,
            },
        )
        response = connection.getresponse()
        body = response.read(max_bytes + 1)
    except TimeoutError as error:
        raise errors.ServerUnreachableError(
            f"The server at {address} did not answer GET {path} in {timeout_s:g} s."
        ) from error
    except (http.client.HTTPException, ValueError) as error:
        raise errors.NotAnOpenEnvServerError(
            f"The server at {address} answered GET {path} with what is no HTTP: "
            f"{errors.printable(repr(error))[:200]}."
        ) from error
    except OSError as error:
        raise errors.ServerUnreachableError(
            f"The server at {address} broke GET {path} off: {error}."
        ) from error
    finally:
        sock.close()
    if len(body) > max_bytes:
        raise errors.NotAnOpenEnvServerError(
            f"The server at {address} answers GET {path} with more than {max_bytes} bytes."
        )
    return response.status, body


def _dial(address: Address, timeout_s: float, ssl_context: ssl.SSLContext | None) -> socket.socket:
    if ssl_context is None or not isinstance(address, TcpAddress) or not address.tls:
        return address.dial(timeout_s)
    sock = replace(address, tls=False).dial(timeout_s)
    try:
        return ssl_context.wrap_socket(sock, server_hostname=address.host)
    except OSError as error:
        sock.close()
        raise explain_tls(str(address), error) from error


class _Limited(io.RawIOBase):
    """A socket, as far as `http.client` uses one, each call of which ends at the same time."""

    def __init__(self, sock: socket.socket, end_s: float) -> None:
        self._socket = sock
        self._end_s = end_s

    def makefile(self, *_: Any) -> io.BufferedReader:
        """Return what the response is read from."""
        return io.BufferedReader(_Limited(self._socket, self._end_s))

    def sendall(self, data: bytes) -> None:
        """Send everything."""
        self._wait_no_longer()
        self._socket.sendall(data)

    def readable(self) -> bool:
        """Tell that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Receive something."""
        self._wait_no_longer()
        return self._socket.recv_into(buffer)

    def _wait_no_longer(self) -> None:
        left_s = self._end_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("the time is over")
        self._socket.settimeout(left_s)
