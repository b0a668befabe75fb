"""``python -m openenv_gym.server``: serve one environment."""

from __future__ import annotations

import argparse
import gc
import logging
import os
import signal
import socket
import sys
from pathlib import Path

from openenv_gym import errors
from openenv_gym._version import __version__
from openenv_gym.protocol.limits import Limits
from openenv_gym.server.application import load_app
from openenv_gym.server.server import Server


_MAX_LOG_BYTES = 16 << 20


def main(argv: list[str] | None = None) -> int:
    """Run a server until it is told to stop; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m openenv_gym.server", description=__doc__)
    parser.add_argument(
        "environment", help="'gymnasium', an environment package, or module:attribute"
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--port", type=int, help="TCP port (0: any free one)")
    parser.add_argument("--uds", metavar="PATH", help="Unix socket to listen on")
    parser.add_argument("--dial", metavar="PATH", help="Unix socket of an owner to connect to")
    parser.add_argument("--channel-fd", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--trim-log", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--capacity", type=int, default=4096, help="sessions at once")
    parser.add_argument("--max-waiting", type=int, default=4096, help="clients that may wait")
    parser.add_argument("--max-threads", type=int, default=64, help="steps that may run at once")
    parser.add_argument(
        "--thread-affinity", action="store_true", help="all calls of an environment in one thread"
    )
    parser.add_argument("--resume-grace-s", type=float, default=Limits.resume_grace_s)
    parser.add_argument("--idle-timeout-s", type=float, default=Limits.idle_timeout_s)
    parser.add_argument("--max-frame-bytes", type=int, default=Limits.max_frame_bytes)
    parser.add_argument("--drain-s", type=float, default=10.0, help="on SIGTERM, wait this long")
    parser.add_argument("--token-file", type=Path, help="file with the token that clients show")
    parser.add_argument("--debug", action="store_true", help="send tracebacks to clients")
    parser.add_argument("--version", action="version", version=f"openenv-gym {__version__}")
    options = parser.parse_args(argv)
    addresses = (options.port, options.uds, options.dial, options.channel_fd)
    if all(address is None for address in addresses):
        options.port = 8000
    logging.basicConfig(
        level=logging.DEBUG if options.debug else logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    try:
        return _serve(options)
    except (errors.OpenEnvGymError, OSError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1


def _serve(options: argparse.Namespace) -> int:
    token = options.token_file.read_text().strip() if options.token_file else None
    limits = Limits(
        max_frame_bytes=options.max_frame_bytes,
        resume_grace_s=options.resume_grace_s,
        idle_timeout_s=options.idle_timeout_s,
    )
    server = Server(
        load_app(options.environment, thread_affinity=options.thread_affinity),
        limits=limits,
        capacity=options.capacity,
        max_waiting=options.max_waiting,
        max_threads=options.max_threads,
        token=token,
        debug=options.debug,
    )
    if options.uds is not None:
        server.listen_unix(options.uds)
        print(f"Serving {server.app.name} on unix://{options.uds}", flush=True)
    if options.port is not None:
        host, port = server.listen_tcp(options.host, options.port)
        print(f"Serving {server.app.name} on http://{host}:{port}", flush=True)
    if options.channel_fd is not None:
        server.adopt_channel(socket.socket(fileno=options.channel_fd))
    if options.dial is not None:
        server.dial_owner(options.dial)
    told = False

    def stop(signum: int, frame: object) -> None:
        nonlocal told
        if told:  # twice means now
            os._exit(128 + signum)
        told = True
        server.request_stop()

    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, stop)
    # What was imported stays: without this, each full collection walks through all of it.
    gc.collect()
    gc.freeze()
    server.start()
    while not server.wait(5.0):
        if options.trim_log:
            _trim_log()
    if told:
        server.drain(options.drain_s)
    server.stop()
    sys.stdout.flush()
    # Threads that are still inside an environment must not keep the process alive.
    os._exit(0)


def _trim_log() -> None:
    """Keep the log file of a talkative environment from filling the disk."""
    size_bytes = os.fstat(2).st_size
    if size_bytes > _MAX_LOG_BYTES:
        os.ftruncate(2, 0)


if __name__ == "__main__":
    sys.exit(main())
