"""The process that owns the addresses, where others run the environments."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar

from openenv_gym import errors
from openenv_gym.protocol.limits import Limits
from openenv_gym.protocol.messages import check_version
from openenv_gym.server.application import Application
from openenv_gym.server.connection import Connection
from openenv_gym.server.figures import Figures
from openenv_gym.server.server import SESSIONS_PATH, Server
from openenv_gym.server.sessions import Entrant, Sessions
from openenv_gym.server.workers.attendants import Attendants
from openenv_gym.server.workers.census import Census, ask_worker, ask_workers
from openenv_gym.server.workers.crew import Crew
from openenv_gym.server.workers.grants import Grants
from openenv_gym.server.workers.isolation import Slots
from openenv_gym.server.workers.options import WorkerOptions
from openenv_gym.server.workers.reception import Reception
from openenv_gym.server.workers.staff import Staff


__all__ = ["Supervisor"]

_START_S = 120.0
_VISIT_S = 30.0
_LIST_S = 2.0
_MAX_NAME = 100
_MAX_NUMBER = 1 << 63
_LISTED: dict[str, Any] = {
    "session": str,
    "peer": str,
    "connected": bool,
    "environment": str,
    "num_envs": (int, type(None)),
    "steps": int,
    "idle_s": (int, float),
    "watchable": bool,
    "watchers": int,
}
_MAX_THREADS = 16  # nothing here takes long


class Dispatcher(Sessions):
    """What HELLO leads to in a supervisor: a place among all, and a worker for it."""

    staff: Staff

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.grants = Grants()

    def __len__(self) -> int:
        return self._places

    def enter(self, connection: Entrant, body: dict[str, Any]) -> Callable[[], None] | None:
        """See `Sessions`."""
        assert isinstance(connection, Reception)
        match body:
            case {"resume": {"session": str(name)}} | {"watch": {"session": str(name)}}:
                check_version(body, peer="client")
                if "watch" in body:
                    self.check_watching()
                return lambda: self.staff.resume(connection, name)
        return super().enter(connection, body)

    def begin(self, connection: Entrant, options: dict[str, Any]) -> Callable[[], None] | None:
        """See `Sessions`; who is no connection from outside is told why nothing begins."""
        if not isinstance(connection, Reception):
            self.grants.take()
        return super().begin(connection, options)

    def find(self, connection: Reception, name: str) -> None:
        """Give a connection to the worker that holds the session that it names."""
        self.staff.resume(connection, name)

    def list_all(self) -> list[dict[str, Any]]:
        """See `Sessions`; those of a process that does not answer are missing."""
        answers = ask_workers(self.staff, SESSIONS_PATH, _LIST_S)
        return [each for number in sorted(answers) for each in _own(number, answers[number])]

    def free_place(self, peer: str) -> None:
        """Take note that a session of a peer has ended, or could not be opened."""
        self._leave(peer)

    def _open_work(self, connection: Entrant, opening: dict[str, Any]) -> Callable[[], None]:
        if not isinstance(connection, Reception):
            raise errors.SessionError(
                "A server of several processes has no sessions over HTTP.",
                hint="Use the binary protocol, or leave --workers and --isolate-sessions away.",
            )
        return lambda: self.staff.place(connection)


class Supervisor(Server):
    """A server whose sessions are in other processes; its addresses are those of any server.

    Args:
        options: What all workers are told.
        workers: How many there are; 0: one for each session, which ends with it.
        capacity: Sessions that may exist at once, in all of them.
        max_waiting: Clients that may wait for a place.
        access: What `Server` is told about who may connect: ``token``, ``exposure``, ``tls``
            and so on.
        directory: For a process for each session: see `Slots`.
        first_user: Likewise.

    Raises:
        IsolationError: Sessions cannot be separated as they must be.
        ServerStartError: The workers do not serve.
    """

    connection_class: ClassVar[type[Connection]] = Reception

    def __init__(
        self,
        options: WorkerOptions,
        *,
        workers: int,
        capacity: int = 4096,
        max_waiting: int = 4096,
        directory: str | None = None,
        first_user: int | None = None,
        **access: Any,
    ) -> None:
        self._staff: Staff
        self._count: Census | Attendants
        if workers:
            self._staff = Crew(options, self._free_place, workers)
            self._count = Census(self._staff)
        else:
            slots = Slots(capacity + 1, directory=directory, first_user=first_user)
            self._staff = self._count = Attendants(options, self._free_place, slots)
        self._staff.start(_START_S)
        facts = self._staff.facts
        try:
            super().__init__(
                Application(
                    _make_nothing,
                    name=str(facts.get("name")),
                    version=str(facts.get("version")),
                    description=str(facts.get("description")),
                    web=bool(facts.get("web")),
                ),
                limits=Limits(**options.limits),
                capacity=capacity,
                max_waiting=max_waiting,
                max_threads=_MAX_THREADS,
                max_envs=options.max_envs,
                debug=options.debug,
                **access,
            )
        except BaseException:
            self._staff.stop()
            raise

    def _make_sessions(self, **options: Any) -> Sessions:
        self._dispatcher = Dispatcher(self.app, self.limits, self.pool, **options)
        self._dispatcher.staff = self._staff
        return self._dispatcher

    def _free_place(self, peer: str) -> None:
        self._dispatcher.free_place(peer)

    def drain(self, timeout_s: float, *, reloads: bool = False) -> bool:
        """See `Server`; sessions in workers end as if it stopped for good."""
        self.sessions.drain()
        if self._web is not None:
            self._web.stop()
        self._staff.drain(timeout_s)
        return super().drain(timeout_s, reloads=reloads)

    def stop(self, timeout_s: float = 5.0) -> None:
        """See `Server`."""
        super().stop(timeout_s)
        self._staff.stop(timeout_s)

    # What a worker says; no environment is ever made in this process.

    @functools.cached_property
    def _facts(self) -> dict[str, Any]:
        return self._ask("/metadata")

    @functools.cached_property
    def _schemas(self) -> dict[str, Any]:
        return self._ask("/schema")

    def _ask(self, path: str) -> dict[str, Any]:
        return ask_worker(self._staff, path, _VISIT_S)

    def sum_figures(self) -> Figures:
        """See `Server`."""
        figures = super().sum_figures()
        figures.merge(self._count.take())
        return figures


def _own(number: int, answer: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what a process says about sessions that can be its own, in the form that it has.

    Code that means harm may run there, and say anything.
    """
    listed = answer.get("sessions")
    return [
        {key: _bounded(each[key]) for key in _LISTED}
        for each in (listed if isinstance(listed, list) else ())
        if isinstance(each, dict)
        and all(isinstance(each.get(key), kind) for key, kind in _LISTED.items())
        and each["session"].startswith(f"{number}-")
    ]


def _bounded(value: Any) -> Any:
    """Return what may stand in a list that others read, whoever said it."""
    if isinstance(value, str):
        return errors.printable(value)[:_MAX_NAME]
    if isinstance(value, (int, float)):
        return value if 0 <= value < _MAX_NUMBER else 0  # NaN is no JSON, either
    return value


def _make_nothing() -> Any:
    raise errors.ProtocolError("No environment is made in the supervisor.")
