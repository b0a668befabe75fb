"""``python -m openenv_gym.server``: serve one environment."""

from __future__ import annotations

import argparse
import gc
import json
import logging
import math
import os
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any

from openenv_gym import errors
from openenv_gym._version import __version__
from openenv_gym.protocol.limits import Limits
from openenv_gym.server.access import add_access_arguments, parse_arguments, read_access
from openenv_gym.server.application import load_app
from openenv_gym.server.confinement import close_system_calls
from openenv_gym.server.egress import start_relay
from openenv_gym.server.logs import LogFormat, log_to_stderr
from openenv_gym.server.memory import give_back_memory
from openenv_gym.server.mode import MODE_VARIABLE, Mode
from openenv_gym.server.process import (
    close_to_others,
    die_with,
    gain_nothing,
    raise_descriptor_limit,
)
from openenv_gym.server.server import Server
from openenv_gym.server.vector.options import DEFAULT_MAX_ENVS
from openenv_gym.server.web_paths import WEB_PATH, WEB_VARIABLE, wants_web


_log = logging.getLogger("openenv_gym.server")
_MAX_LOG_BYTES = 16 << 20
_MAX_PATH_BYTES = 107 if sys.platform == "linux" else 103  # of the address of a Unix socket
_DESCRIPTORS_WITH_TLS = 3  # of a connection
_SESSION_PIDS = 256
_SESSION_THREADS = 8  # of a process that holds one session


def main(argv: list[str] | None = None) -> int:
    """Run a server until it is told to stop; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m openenv_gym.server", description=__doc__)
    parser.add_argument(
        "environment", help="'gymnasium', an environment package, or module:attribute"
    )
    parser.add_argument(
        "--option",
        action="append",
        type=_option,
        default=[],
        metavar="KEY=VALUE",
        dest="options",
        help="what environments are made with where a session does not say otherwise, such as "
        "env_id=CartPole-v1; VALUE is JSON, or else text; may be given several times",
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--port", type=_integer(0, 65535), help="TCP port (0: any free one)")
    parser.add_argument("--uds", type=_socket_path, metavar="PATH", help="Unix socket to listen on")
    parser.add_argument(
        "--dial", type=_socket_path, metavar="PATH", help="Unix socket of an owner to connect to"
    )
    parser.add_argument("--channel-fd", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--owner-stdin", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--egress", type=_socket_path, help=argparse.SUPPRESS)
    parser.add_argument("--reloaded-by", type=int, metavar="PID", help=argparse.SUPPRESS)
    parser.add_argument("--trim-log", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument(
        "--confine",
        action="store_true",
        help="close system calls that no environment needs, for the server and all that it starts "
        "(docs/security.md); nothing that runs there gains rights any more, either",
    )
    parser.add_argument(
        "--capacity", type=_integer(1), default=4096, help="sessions at once, in all"
    )
    parser.add_argument(
        "--max-waiting", type=_integer(0), default=4096, help="clients that may wait"
    )
    parser.add_argument(
        "--max-sessions-per-peer",
        type=_integer(1),
        metavar="N",
        help="sessions and waiting clients of one address (of IPv6, one network of 64 bits)",
    )
    parser.add_argument(
        "--max-threads", type=_integer(1), default=64, help="steps that may run at once"
    )
    parser.add_argument(
        "--max-envs",
        type=_integer(1),
        default=DEFAULT_MAX_ENVS,
        help="sub-environments of a vector session",
    )
    parser.add_argument(
        "--thread-affinity", action="store_true", help="all calls of an environment in one thread"
    )
    parser.add_argument(
        "--workers",
        type=_integer(1, 1024),
        default=1,
        metavar="N",
        help="processes that share the sessions evenly; one that dies is replaced, and only its "
        "sessions are lost",
    )
    parser.add_argument(
        "--isolate-sessions",
        action="store_true",
        help="a process for each session, with its own user (where this runs as root), temporary "
        "directory and limits; all that it started ends with the session",
    )
    parser.add_argument(
        "--session-pids",
        type=_integer(16),
        default=_SESSION_PIDS,
        metavar="N",
        help="with --isolate-sessions, as root: processes and threads that a session may have",
    )
    parser.add_argument(
        "--session-sockets",
        choices=["all", "unix"],
        default="all",
        help="with --isolate-sessions; unix: a session makes no sockets of IPv4 and IPv6, since "
        "all share the loopback interface",
    )
    parser.add_argument("--session-directory", metavar="PATH", help=argparse.SUPPRESS)
    parser.add_argument("--session-user", type=_integer(1), help=argparse.SUPPRESS)
    parser.add_argument("--resume-grace-s", type=_seconds, default=Limits.resume_grace_s)
    parser.add_argument("--idle-timeout-s", type=_seconds, default=Limits.idle_timeout_s)
    parser.add_argument("--max-frame-bytes", type=_integer(4096), default=Limits.max_frame_bytes)
    parser.add_argument("--drain-s", type=_seconds, default=10.0, help="on SIGTERM, wait this long")
    parser.add_argument(
        "--mode",
        choices=[mode.value for mode in Mode],
        help="production: whoever connects calls tools at /mcp, and can neither reset nor step; "
        f"by default what {MODE_VARIABLE} says",
    )
    add_access_arguments(parser)
    parser.add_argument(
        "--web",
        action="store_true",
        help=f"show a page at {WEB_PATH} (docs/web.md); it needs the extra 'web'; likewise with "
        f"{WEB_VARIABLE}=true",
    )
    parser.add_argument(
        "--log-format",
        choices=[each.value for each in LogFormat],
        default=LogFormat.TEXT.value,
        help="json: one object a line",
    )
    parser.add_argument("--debug", action="store_true", help="send tracebacks to clients")
    parser.add_argument("--version", action="version", version=f"openenv-gym {__version__}")
    options = parse_arguments(parser, argv)
    addresses = (options.port, options.uds, options.dial, options.channel_fd)
    if all(address is None for address in addresses):
        options.port = 8000
    if options.isolate_sessions and options.workers != 1:
        parser.error("--isolate-sessions has a process for each session: leave --workers away")
    log_to_stderr(debug=options.debug, form=LogFormat(options.log_format))
    if options.mode is not None:
        os.environ[MODE_VARIABLE] = options.mode  # for workers, too
    try:
        return _serve(options)
    except (errors.OpenEnvGymError, OSError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1


def _serve(options: argparse.Namespace) -> int:
    if options.confine:
        gain_nothing()  # without it the kernel takes no filter; Swarm has no option for it
        if not close_system_calls():
            _log.warning("System calls are not closed on this kind of machine (--confine).")
    if options.reloaded_by is not None:
        die_with(options.reloaded_by)
    access = read_access(options)
    if options.owner_stdin:
        # The token is its first line; its end, later on, that the owner is gone.
        access["token"] = _read_line(0)
    if options.egress is not None:
        start_relay(options.egress)
    if options.port is not None or options.uds is not None:
        access["web"] = options.web or wants_web()
    tls = access["tls"] is not None
    raise_descriptor_limit(options.capacity * (_DESCRIPTORS_WITH_TLS if tls else 1))
    limits = Limits(
        max_frame_bytes=options.max_frame_bytes,
        resume_grace_s=options.resume_grace_s,
        idle_timeout_s=options.idle_timeout_s,
    )
    server = _make_server(options, limits, access)
    # What an environment forks must not hold connections open when this process is gone.
    os.register_at_fork(after_in_child=server.close_after_fork)
    if options.uds is not None:
        server.listen_unix(options.uds)
        print(f"Serving {server.app.name} on unix://{options.uds}", flush=True)
    if options.port is not None:
        host, port = server.listen_tcp(options.host, options.port)
        shown = f"[{host}]" if ":" in host else host
        scheme = "https" if tls else "http"
        print(f"Serving {server.app.name} on {scheme}://{shown}:{port}", flush=True)
    if options.channel_fd is not None:
        os.set_inheritable(options.channel_fd, False)
        server.adopt_channel(socket.socket(fileno=options.channel_fd))
    if options.owner_stdin:
        close_to_others()
        server.watch_owner(0)
    if options.dial is not None:
        close_to_others()
        server.dial_owner(options.dial)
    told = reloads = False

    def stop(signum: int, frame: object) -> None:
        nonlocal told, reloads
        if told:  # twice means now
            os._exit(128 + signum)
        told, reloads = True, signum == signal.SIGHUP
        server.request_stop()

    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, stop)
    if options.reloaded_by is not None:
        signal.signal(signal.SIGHUP, stop)
    # What was imported stays: without this, each full collection walks through all of it.
    gc.collect()
    gc.freeze()
    server.start()
    known = 0
    while not server.wait(5.0):
        if options.trim_log:
            _trim_log()
        # As often as it has as many to take away as to look through.
        if server.left - known > len(server.sessions):
            known = server.left
            give_back_memory()
    if reloads:
        server.drain(0.0, reloads=True)
    elif told:
        open_sessions = len(server.sessions)
        if open_sessions and options.drain_s:
            print(
                f"Stopping; waiting up to {options.drain_s:g} s for {open_sessions} open "
                f"session{'s' if open_sessions > 1 else ''} (once more stops at once)",
                flush=True,
            )
        server.drain(options.drain_s)
    server.stop()
    sys.stdout.flush()
    # Threads that are still inside an environment must not keep the process alive.
    os._exit(0)


def _make_server(options: argparse.Namespace, limits: Limits, access: dict[str, Any]) -> Server:
    if options.workers == 1 and not options.isolate_sessions:
        return Server(
            load_app(
                options.environment,
                thread_affinity=options.thread_affinity,
                options=dict(options.options),
            ),
            limits=limits,
            capacity=options.capacity,
            max_waiting=options.max_waiting,
            max_threads=options.max_threads,
            max_envs=options.max_envs,
            debug=options.debug,
            **access,
        )
    from openenv_gym.server.workers import Supervisor, WorkerOptions

    alone = options.isolate_sessions
    return Supervisor(
        WorkerOptions(
            environment=options.environment,
            options=dict(options.options),
            thread_affinity=options.thread_affinity,
            capacity=options.capacity,
            max_threads=min(options.max_threads, _SESSION_THREADS)
            if alone
            else options.max_threads,
            max_envs=options.max_envs,
            debug=options.debug,
            log_format=options.log_format,
            limits=limits.to_wire(),
            isolate=alone,
            max_pids=options.session_pids,
            unix_only=options.session_sockets == "unix",
        ),
        workers=0 if alone else options.workers,
        capacity=options.capacity,
        max_waiting=options.max_waiting,
        directory=options.session_directory,
        first_user=options.session_user,
        **access,
    )


def _integer(least: int, most: float = math.inf) -> Callable[[str], int]:
    expected = f"of at least {least}" if most == math.inf else f"from {least} to {most}"

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"expected an integer {expected}, not {text!r}")
        return value

    return parse


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"expected a number of seconds, 0 or more, not {text!r}")
    return value


def _option(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or not key.isidentifier():
        raise argparse.ArgumentTypeError(f"expected KEY=VALUE, not {text!r}")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value


def _socket_path(text: str) -> str:
    size = len(os.fsencode(text))
    if not 0 < size <= _MAX_PATH_BYTES:
        raise argparse.ArgumentTypeError(
            f"expected a path of 1 to {_MAX_PATH_BYTES} bytes, which is what the system takes for "
            f"a socket, not of {size}: {text!r}"
        )
    return text


def _read_line(fd: int) -> str:
    """Read a line and not a byte more."""
    line = b""
    while (byte := os.read(fd, 1)) not in (b"", b"\n"):
        line += byte
    return line.decode("ascii")


def _trim_log() -> None:
    """Keep the log file of a talkative environment from filling the disk."""
    size_bytes = os.fstat(2).st_size
    if size_bytes > _MAX_LOG_BYTES:
        os.ftruncate(2, 0)


if __name__ == "__main__":
    sys.exit(main())
