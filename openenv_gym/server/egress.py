"""The way out of a container without a network, seen from inside it.

Programs want a proxy at a TCP address, and the owner's is a Unix socket in a directory of its own.
So a small program passes connections to 127.0.0.1 on to that socket. Who may be reached is decided
on the other side; run as a script (standard library only), this is that program.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys


__all__ = ["main", "start_relay"]

_CHUNK_BYTES = 1 << 16
_START_S = 20.0


def start_relay(path: str) -> None:
    """Start the relay, and tell this process's environments of it.

    Sets ``HTTPS_PROXY`` and its kin in this process's environment, which those inherit.

    Args:
        path: Unix socket of the owner's proxy.

    Raises:
        OSError: It cannot be started.
    """
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", __file__, path],
        stdin=subprocess.PIPE,  # its end is the relay's
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    with process.stdout as stdout:
        line = stdout.readline()
    if not line.strip().isdigit():
        raise OSError(f"the relay to {path} did not start (code {process.wait(_START_S)})")
    address = f"http://127.0.0.1:{int(line)}"
    for name in ("HTTPS_PROXY", "HTTP_PROXY"):
        os.environ[name] = os.environ[name.lower()] = address
    os.environ["NO_PROXY"] = os.environ["no_proxy"] = "localhost,127.0.0.1,::1"
    _relays.append(process)


_relays: list[subprocess.Popen[bytes]] = []  # while this process lives


async def _serve(path: str) -> None:
    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            theirs_in, theirs_out = await asyncio.open_unix_connection(path)
        except OSError:
            writer.close()
            return
        try:
            await asyncio.gather(_copy(reader, theirs_out), _copy(theirs_in, writer))
        except OSError:
            pass  # one side broke off
        finally:
            theirs_out.close()
            writer.close()

    server = await asyncio.start_server(pass_on, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    loop = asyncio.get_running_loop()
    loop.add_reader(0, lambda: os.read(0, 4096) or os._exit(0))
    await server.serve_forever()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_CHUNK_BYTES):
        writer.write(data)
        await writer.drain()
    with contextlib.suppress(OSError):
        writer.write_eof()


def main() -> None:
    """Pass connections on until the input ends."""
    asyncio.run(_serve(sys.argv[1]))


if __name__ == "__main__":
    main()
