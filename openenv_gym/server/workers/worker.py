"""A worker process: a server that is handed its connections by a supervisor."""

from __future__ import annotations

import contextlib
import functools
import gc
import json
import os
import resource
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from openenv_gym import errors
from openenv_gym.protocol.limits import Limits
from openenv_gym.server.application import Application, load_app
from openenv_gym.server.confinement import close_system_calls, keep_to_itself
from openenv_gym.server.connection import Connection
from openenv_gym.server.http_messages import HttpRequest, HttpResponse, Route
from openenv_gym.server.logs import LogFormat, log_to_stderr
from openenv_gym.server.poller import Event
from openenv_gym.server.process import (
    close_to_others,
    die_with,
    gain_nothing,
    raise_descriptor_limit,
)
from openenv_gym.server.server import Server
from openenv_gym.server.sessions import Entrant, Sessions
from openenv_gym.server.site import ConnectionState
from openenv_gym.server.workers.census import FIGURES_PATH
from openenv_gym.server.workers.channel import Kind, Letter, receive, send, split_connection
from openenv_gym.server.workers.grants import Grant, Grants
from openenv_gym.server.workers.handed import HandedConnection, HandedRequest
from openenv_gym.server.workers.ledger import Ledger
from openenv_gym.server.workers.options import WorkerOptions


__all__ = ["main"]

_MAX_DESCRIPTION = 4096  # characters
_LAST_ANSWERS_S = 2.0
_UNANSWERED = (ConnectionState.HTTP, ConnectionState.ANSWERING, ConnectionState.OPENING)
_TRIES = 10  # to tell the supervisor something, for up to a second each
_RATHER_ME = "500"  # when memory runs out; the supervisor stays at 0


class WorkerSessions(Sessions):
    """Sessions whose places the supervisor counts: it hears of each that is free again."""

    tell: Callable[[str], None]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.grants = Grants()

    def enter(self, connection: Entrant, body: dict[str, Any]) -> Callable[[], None] | None:
        """See `Sessions`."""
        try:
            return super().enter(connection, body)
        except BaseException:
            if "resume" not in body:
                self.tell(connection.peer)
            raise

    def begin(self, connection: Entrant, options: dict[str, Any]) -> Callable[[], None] | None:
        """See `Sessions`; the place is the one that the request may use."""
        self.grants.take()
        try:
            return super().begin(connection, options)
        except BaseException:
            self.tell(connection.peer)
            raise

    def _leave(self, peer: str) -> None:
        super()._leave(peer)
        self.tell(peer)


class WorkerServer(Server):
    """A server without addresses.

    Args:
        app: What is served.
        options: What the supervisor said.
        channel: The way to the supervisor.
    """

    def __init__(self, app: Application, options: WorkerOptions, channel: socket.socket) -> None:
        self._options = options
        self._channel = channel
        self._ledger = Ledger(options.ledger_fd) if options.ledger_fd >= 0 else None
        self._used = False
        self._taking = threading.Lock()  # a letter, until its connection is among ours
        super().__init__(
            app,
            limits=Limits(**options.limits),
            capacity=options.capacity,
            max_threads=options.max_threads,
            max_envs=options.max_envs,
            admitted=True,
            debug=options.debug,
        )
        channel.setblocking(False)
        self._doors.add(channel, self._on_letter)

    def _make_sessions(self, **options: Any) -> WorkerSessions:
        self._entered = sessions = WorkerSessions(
            self.app, self.limits, self.pool, name_prefix=self._options.prefix, **options
        )
        sessions.tell = self._tell_left
        return sessions

    def ready(self) -> None:
        """Tell the supervisor that we serve, and what."""
        app = self.app
        facts = {
            "name": app.name,
            "version": app.version,
            "description": app.description[:_MAX_DESCRIPTION],
            "web": app.web,
        }
        send(self._channel, Kind.READY, json.dumps(facts, default=str).encode())

    def _routes(self) -> list[Route]:
        # For the supervisor, who has no such route himself and passes nobody on to it.
        return [*super()._routes(), Route("GET", FIGURES_PATH, self._figures, quick=True)]

    def _figures(self, request: HttpRequest) -> HttpResponse:
        return HttpResponse.of_json(self.sum_figures().to_wire())

    def _keep_house(self, now_s: float) -> None:
        super()._keep_house(now_s)
        self._leave_figures()

    def _leave_figures(self) -> None:
        """Leave what is counted where the supervisor finds it who does not ask."""
        if self._ledger is not None:
            with contextlib.suppress(OSError, ValueError):
                self._ledger.write(self.sum_figures())

    def forget(self, connection: Connection) -> None:
        """See `Server`."""
        super().forget(connection)
        self._end_after_use()

    def _tell_left(self, peer: str) -> None:
        # The other end is always read; a place that is not given back would be lost for good.
        for _ in range(_TRIES):
            if send(self._channel, Kind.LEFT, peer.encode()) or not _writable(self._channel):
                break
        self._end_after_use()

    def _end_after_use(self) -> None:
        """End where the only session has ended, and its last bytes have left."""
        if self._options.isolate and self._used:
            with self._lock:
                over = not self._connections
            if over and not self._entered.taken:
                self.request_stop()

    def _on_letter(self, event: Event) -> None:
        with self._taking:
            try:
                letter = receive(self._channel, trusted=True)
            except BlockingIOError:
                self.pool.arm(self._channel.fileno())
                return
            if letter is None:
                self.request_stop()  # the supervisor is gone
                return
            self.pool.arm(self._channel.fileno())
            talking = self._take(letter)
        _hear(talking)

    def stop(self, timeout_s: float = 5.0) -> None:
        """See `Server`; who was handed over while nobody knew that this is the end is answered."""
        with contextlib.suppress(OSError):
            self._channel.shutdown(socket.SHUT_RD)  # what is sent from now on fails there
        with self._taking, contextlib.suppress(BlockingIOError):
            while (letter := receive(self._channel, trusted=True)) is not None:
                _hear(self._take(letter))
        end_s = time.monotonic() + _LAST_ANSWERS_S
        while time.monotonic() < end_s and self._answers():
            time.sleep(0.01)
        super().stop(timeout_s)
        self._leave_figures()

    def _answers(self) -> bool:
        with self._lock:
            return any(each.state in _UNANSWERED for each in self._connections)

    def _take(self, letter: Letter) -> list[Connection]:
        """Serve a connection that was handed over; return it where it has said something."""
        talking: list[Connection] = []
        if letter.kind is Kind.DRAIN:
            limit_s = float(letter.data)
            threading.Thread(target=self.drain, args=(limit_s,), daemon=True).start()
            return []
        for descriptor in letter.descriptors:
            self._used = True
            sock = socket.socket(fileno=descriptor)
            peer, arrived_s, said = split_connection(letter.data)
            connection: Connection
            if letter.kind is Kind.CONNECTION:
                connection = HandedConnection(self, sock, peer, said)
            else:
                grant = None
                if letter.kind is Kind.REQUEST:
                    grant = Grant(functools.partial(self._tell_left, peer))
                grants = self._entered.grants
                connection = HandedRequest(self, sock, peer, said, grants, grant)
            connection.arrived_s = arrived_s
            self._serve(connection)
            if said:
                talking.append(connection)
        return talking


def main() -> int:
    """Serve what the supervisor hands over until it, or the session, is gone."""
    options = WorkerOptions.from_json(sys.argv[1])
    # Before anything of the environment is loaded.
    die_with(options.supervisor)
    if options.isolate:
        _confine(options)
    who = "session process" if options.isolate else "worker"
    log_to_stderr(
        debug=options.debug,
        form=LogFormat(options.log_format),
        worker=f"{who} {options.number}",
    )
    channel = socket.socket(fileno=options.channel_fd)
    channel.set_inheritable(False)
    if options.ledger_fd >= 0:
        os.set_inheritable(options.ledger_fd, False)
    # The supervisor's, who tells us; not ignored, which programs that we start would inherit.
    signal.signal(signal.SIGINT, lambda signum, frame: None)
    try:
        raise_descriptor_limit(options.capacity)
        app = load_app(
            options.environment,
            thread_affinity=options.thread_affinity,
            options=options.options,
        )
        server = WorkerServer(app, options, channel)
    except (errors.OpenEnvGymError, OSError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    # What an environment forks must not hold connections open when this process is gone.
    os.register_at_fork(after_in_child=server.close_after_fork)
    gc.collect()
    gc.freeze()
    server.start()
    server.ready()
    while not server.wait(3600.0):
        pass
    server.stop()
    sys.stdout.flush()
    # Threads that are still inside an environment must not keep the process alive.
    os._exit(0)


def _confine(options: WorkerOptions) -> None:
    """Give up what code that means harm could use against other sessions."""
    gain_nothing()
    keep_to_itself()
    if options.unix_only:
        close_system_calls(ip=False)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write(_RATHER_ME)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if not options.own_user:
        return  # what follows counts for, or protects from, all that the user runs
    if options.max_pids is not None:
        resource.setrlimit(resource.RLIMIT_NPROC, (options.max_pids, options.max_pids))
    if hasattr(resource, "RLIMIT_MSGQUEUE"):  # queues outlive their makers
        resource.setrlimit(resource.RLIMIT_MSGQUEUE, (0, 0))
    close_to_others()


def _hear(connections: list[Connection]) -> None:
    """Hear what was handed over with connections, which makes no event."""
    for connection in connections:
        connection.on_event(Event(connection.socket.fileno(), readable=True, writable=False))


def _writable(channel: socket.socket) -> bool:
    """Wait for room in the channel, for a while; False where there is none, or nobody reads."""
    try:
        return bool(select.select([], [channel], [], 1.0)[1])
    except (OSError, ValueError):
        return False
