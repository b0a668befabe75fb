"""A proxy that connects to named hosts and to nothing else.

Run as a script (standard library only) with a listening socket as its argument. The first line of
its standard input is JSON, ``{"hosts": ["api.example.com:443", ...]}``; when the input ends, so
does it. It speaks ``CONNECT`` (RFC 9110, section 9.3.6) and nothing else. Names are resolved here,
once for each connection, and the connection goes to the very address that was checked.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import os
import re
import socket
import sys
import time


__all__ = ["Refusal", "allowed_addresses", "is_public", "main", "read_target"]

_MAX_HEAD_BYTES = 8192
_HEAD_S = 10.0
_CONNECT_S = 15.0
_IDLE_S = 600.0
_MAX_CONNECTIONS = 64
_CHUNK_BYTES = 1 << 16

_CONNECT = re.compile(rb"CONNECT ([A-Za-z0-9._\[\]:-]{1,300}):([0-9]{1,5}) HTTP/1\.[01]\r?\n")
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_GIVEN_OUT = ipaddress.ip_network("2000::/3")
"""All that is global unicast of IPv6, by IANA's registry; `ipaddress` takes it to be far more."""


class Refusal(Exception):
    """A request that is not granted.

    Args:
        status: Status of the answer.
        text: What the client reads.
    """

    def __init__(self, status: str, text: str) -> None:
        super().__init__(text)
        self.status = status


def read_target(head: bytes) -> tuple[str, int]:
    """Return the host and port that a request asks for.

    Raises:
        Refusal: It is no ``CONNECT``.
    """
    match = _CONNECT.match(head)
    if match is None:
        raise Refusal("405 Method Not Allowed", "this proxy speaks CONNECT and nothing else")
    host, port = match[1].decode().lower().rstrip("."), int(match[2])
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    return host, port


def allowed_addresses(host: str, port: int, hosts: frozenset[str]) -> list[str]:
    """Return the addresses to try for a host.

    Args:
        host: A name or an address.
        port: A port.
        hosts: ``host:port`` each, as `openenv_gym.providers.Network.hosts` has them.

    Raises:
        Refusal: It is not among them, has no address, or leads into a network that is not public
            though it was not listed as an address.
    """
    literal = _address(host)
    shown = (
        f"[{literal}]:{port}" if literal is not None and literal.version == 6 else f"{host}:{port}"
    )
    if shown not in hosts:
        raise Refusal("403 Forbidden", f"{shown} is not among the hosts that this server may reach")
    if literal is not None:
        return [str(literal)]  # whoever listed it meant it
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise Refusal("502 Bad Gateway", f"{host} has no address: {error}") from error
    addresses = [str(entry[4][0]) for entry in found]
    public = [address for address in dict.fromkeys(addresses) if is_public(address)]
    if not public:
        raise Refusal(
            "403 Forbidden",
            f"{host} leads to {addresses[0]}, which is no public address; list that address itself",
        )
    return public


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def is_public(text: str) -> bool:
    """Tell whether an address leads to the public internet, and nowhere nearer."""
    address = _address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        # An address inside another one is what is reached.
        inner = address.ipv4_mapped or address.sixtofour
        if address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(str(inner))
        # What is not given out may be anybody's own: translators to IPv4, networks of old.
        if address not in _GIVEN_OUT or address.teredo is not None:
            return False
    return address is not None and address.is_global and not address.is_multicast


class _Proxy:
    def __init__(self, hosts: frozenset[str]) -> None:
        self._hosts = hosts
        self._open = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            await self._answer(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.TimeoutError, ValueError):
            pass  # a client that breaks off, or says nothing
        finally:
            self._open -= 1
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self._open > _MAX_CONNECTIONS:
                raise Refusal("503 Service Unavailable", "too many connections at once")
            theirs_in, theirs_out = await self._connect(reader)
        except Refusal as refusal:
            text = f"{refusal}\n".encode()
            head = f"HTTP/1.1 {refusal.status}\r\nContent-Length: {len(text)}\r\n\r\n"
            writer.write(head.encode() + text)
            await asyncio.wait_for(writer.drain(), _HEAD_S)
            return
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        try:
            await _Tunnel((reader, theirs_out), (theirs_in, writer)).run()
        finally:
            theirs_out.close()

    async def _connect(
        self, reader: asyncio.StreamReader
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), _HEAD_S)
        except asyncio.LimitOverrunError:
            raise Refusal("431 Request Header Fields Too Large", "the head is too long") from None
        host, port = read_target(head)
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(None, allowed_addresses, host, port, self._hosts)
        last: BaseException | None = None
        for address in found:
            try:
                return await asyncio.wait_for(asyncio.open_connection(address, port), _CONNECT_S)
            except (OSError, asyncio.TimeoutError) as error:
                last = error
        raise Refusal("502 Bad Gateway", f"{host}:{port} cannot be reached: {last}")


class _Tunnel:
    """Passes on what comes in both directions, until both end or neither has anything any more.

    One alone may be silent for as long as it likes: who downloads says nothing.

    Args:
        ways: Where each begins and ends.
    """

    def __init__(self, *ways: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
        self._ways = ways
        self._moved_s = time.monotonic()

    async def run(self) -> None:
        """Run until the end; whatever one of the sides breaks off with is raised."""
        going = {asyncio.ensure_future(self._copy(*way)) for way in self._ways}
        try:
            while going and (left_s := self._moved_s + _IDLE_S - time.monotonic()) > 0:
                done, going = await asyncio.wait(
                    going, timeout=left_s, return_when=asyncio.FIRST_EXCEPTION
                )
                for each in done:
                    each.result()
        finally:
            for each in going:
                each.cancel()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(_CHUNK_BYTES):
            self._moved_s = time.monotonic()
            writer.write(data)
            await writer.drain()
            self._moved_s = time.monotonic()
        with contextlib.suppress(OSError):
            writer.write_eof()


async def _run(listener: socket.socket, hosts: frozenset[str]) -> None:
    loop = asyncio.get_running_loop()
    ended = loop.create_future()
    loop.add_reader(0, _on_input, ended)
    server = await asyncio.start_unix_server(
        _Proxy(hosts).serve, sock=listener, limit=_MAX_HEAD_BYTES
    )
    async with server:
        await ended
    os._exit(0)  # connections that are open must not keep it


def _on_input(ended: asyncio.Future[None]) -> None:
    if not os.read(0, 4096) and not ended.done():
        ended.set_result(None)


def main() -> None:
    """Read what is allowed, and serve until the input ends."""
    line = b""
    while not line.endswith(b"\n"):
        data = os.read(0, 1)
        if not data:
            return
        line += data
    hosts = frozenset(json.loads(line)["hosts"])
    asyncio.run(_run(socket.socket(fileno=int(sys.argv[1])), hosts))


if __name__ == "__main__":
    main()
