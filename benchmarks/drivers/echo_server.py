"""Server of `benchmarks.drivers.echo`: websockets on uvloop. Argument: the socket's path."""

from __future__ import annotations

import asyncio
import sys

import uvloop
from websockets.asyncio.server import ServerConnection, unix_serve

from benchmarks.drivers.common import until_stdin_ends


async def echo(connection: ServerConnection) -> None:
    """Send every message back."""
    async for message in connection:
        await connection.send(message)


async def main(path: str) -> None:
    """Serve until standard input ends."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    async with unix_serve(echo, path, compression=None):
        until_stdin_ends(lambda: loop.call_soon_threadsafe(ended.set))
        print("ready", flush=True)
        await ended.wait()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1]))
