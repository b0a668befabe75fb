"""From a catalogue entry to a vector environment: where `gymnasium.make_vec` arrives."""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import numbers
import os
from typing import TYPE_CHECKING, Any

from openenv_gym import errors
from openenv_gym.registration.bridging import reach
from openenv_gym.registration.lodging import Lodging
from openenv_gym.registration.make import (
    choose_place,
    session_options,
)
from openenv_gym.registration.starting import open_session, start


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gymnasium.vector import AutoresetMode

    from openenv_gym.providers import Provider, RunningServer
    from openenv_gym.registration.catalogue import CatalogueEntry
    from openenv_gym.registration.lodging import Stay
    from openenv_gym.registration.shared import SharedServer
    from openenv_gym.vector import Member, Opened, RemoteVectorEnv

__all__ = ["make_vector_env"]

_AT_ONCE = 32  # servers that are started, and sessions that are opened, at the same time
_ROOM_S = 30.0  # so long the room of an earlier session may take to be free again
_ENGINES = ("default", "native")
_SERVER_US = 400.0  # a server less to wait for is worth that many microseconds of steps

_OWN: Any = object()
"""The time limit of the id, or, where it has none, of what it hosts."""


def make_vector_env(
    entry: CatalogueEntry,
    /,
    *,
    num_envs: int = 1,
    num_servers: int | None = None,
    autoreset_mode: str | AutoresetMode = "NextStep",
    max_episode_steps: int | None = _OWN,
    render_mode: str | None = None,
    engine: str = "default",
    copy: bool = True,
    observation_mode: str | Any = "same",
    on_failure: str = "raise",
    provider: str | Provider | None = None,
    base_url: str | Sequence[str] | None = None,
    ca_file: str | None = None,
    server: SharedServer | None = None,
    allow_unisolated: bool = False,
    timeout_s: float = 120.0,
    wait_s: float = 0.0,
    hosted_time_limit: bool = True,
    disable_env_checker: bool | None = None,
    **options: Any,
) -> RemoteVectorEnv:
    """Make a vector environment of an entry.

    What sub-environment i does depends on its seed alone, never on `num_servers`.

    Args:
        entry: What the catalogue says of the id.
        num_envs: Sub-environments.
        num_servers: Servers to spread them over, evenly. By default as many as there are
            processors, fewer where all steps together take less time than a message to another
            server; one where its engine steps all sub-environments at once; and one for each
            sub-environment where the environment runs untrusted code: fewer are shared by sessions
            with a process and a user of their own each.
            With `base_url` or `server`, sessions to open there: one for each address by default.
        autoreset_mode: See `gymnasium.vector.AutoresetMode`.
        max_episode_steps: Truncate episodes after so many steps; None or -1: never. The server
            does it, and nobody else.
        render_mode: How to render; not ``"human"``.
        engine: ``"native"`` takes the environment's own vectorised implementation, also where it
            differs from a single environment.
        copy: Each step returns observations in memory of their own; False: always in the same.
        observation_mode: ``"same"``, ``"different"``, or batched and single space; see
            `RemoteVectorEnv`.
        on_failure: ``"raise"`` or ``"restart"`` where a server is gone; see
            `RemoteVectorEnv.from_members`.
        provider: Where servers run; see `make_env`, as for the following.
        base_url: Address of a server that runs already, or several of them.
        ca_file: See `make_env`.
        server: What `start_server` returned.
        allow_unisolated: Run untrusted code where nothing contains it.
        timeout_s: Limit of each request.
        wait_s: How long to wait for a place where a server is full.
        hosted_time_limit: Where the id has no time limit, apply that of what it hosts.
        disable_env_checker: Accepted, and without effect: vector environments have no checker.
        **options: Options of the environment.

    Raises:
        InvalidOptionError: An option is unknown, missing or wrong.
        ProviderError: A server cannot be started.
        IsolationError: The environment runs untrusted code, and nothing would contain it.
        OpenEnvGymError: A session cannot be opened.
    """
    if render_mode == "human":
        raise errors.InvalidOptionError(
            'render_mode="human" shows one environment, and this is a vector of them.',
            field="render_mode",
            hint='Use render_mode="rgb_array" and gymnasium.wrappers.vector.HumanRendering.',
        )
    if engine not in _ENGINES:
        raise errors.InvalidOptionError(
            f"engine={engine!r:.60}: expected one of {', '.join(map(repr, _ENGINES))}.",
            field="engine",
        )
    num_envs = _positive("num_envs", num_envs)
    if num_servers is not None:
        num_servers = _positive("num_servers", num_servers)
    from openenv_gym.vector.arguments import (
        check_observation_mode,
        read_autoreset_mode,
        wire_observation_mode,
    )

    mode = read_autoreset_mode(autoreset_mode)
    check_observation_mode(observation_mode)
    described: dict[str, Any] = {
        "autoreset_mode": mode.value,
        "engine": engine,
        "observation_mode": wire_observation_mode(observation_mode),
    }
    if max_episode_steps is _OWN:
        max_episode_steps = entry.max_episode_steps
        if max_episode_steps is not None or not hosted_time_limit:
            described["max_episode_steps"] = max_episode_steps
    elif max_episode_steps is None or max_episode_steps == -1:
        described["max_episode_steps"] = None
    else:
        described["max_episode_steps"] = _positive("max_episode_steps", max_episode_steps)
    opening = _Opening(
        entry,
        session_options(entry, render_mode, options),
        described,
        timeout_s=timeout_s,
        wait_s=wait_s,
        provider=provider,
        allow_unisolated=allow_unisolated,
    )
    place, where = choose_place(
        provider,
        list(base_url) if isinstance(base_url, (list, tuple)) else base_url,
        server,
        ca_file,
    )
    if place == "server":
        members = opening.share(where, num_envs, num_servers or 1)
    elif place == "base_url":
        urls = where if isinstance(where, list) else [where]
        if not urls:
            raise errors.InvalidOptionError(
                "base_url is empty, expected at least one address.", field="base_url"
            )
        members = opening.reach(urls, num_envs, num_servers or len(urls), ca_file)
    else:
        contained = entry.untrusted and not allow_unisolated
        if num_servers is None:
            if contained:
                num_servers = num_envs
            elif engine == "native" or _vectorized(entry, opening.options):
                num_servers = 1
            else:
                num_servers = _worthwhile(entry, num_envs)
        if contained and num_servers < num_envs:
            members = opening.lodge(num_envs, num_servers)
        else:
            members = opening.start(num_envs, num_servers)
    from openenv_gym.vector import RemoteVectorEnv

    return RemoteVectorEnv.from_members(
        members,
        copy=copy,
        observation_mode=observation_mode,
        autoreset_mode=mode,
        on_failure=on_failure,
    )


class _Opening:
    """Opens vector sessions that are alike but for their slice of the sub-environments.

    Attributes:
        options: What an environment is made with.
    """

    def __init__(
        self,
        entry: CatalogueEntry,
        options: dict[str, Any],
        described: dict[str, Any],
        *,
        timeout_s: float,
        wait_s: float,
        provider: str | Provider | None,
        allow_unisolated: bool,
    ) -> None:
        self._entry = entry
        self.options = options
        self._described = described
        self._limits: dict[str, Any] = {"timeout_s": timeout_s, "wait_s": wait_s}
        self._provider = provider
        self._allow_unisolated = allow_unisolated

    def share(self, server: SharedServer, num_envs: int, num_sessions: int) -> list[Member]:
        """Open sessions on a server that is shared."""
        from openenv_gym.vector import Opened

        def open_one(index: int, vector: dict[str, Any]) -> Opened:
            return Opened(server.connect(self._entry, self.options, vector=vector, **self._limits))

        return self._open(num_envs, num_sessions, open_one)

    def reach(
        self, urls: list[str], num_envs: int, num_sessions: int, ca_file: str | None
    ) -> list[Member]:
        """Open sessions on servers that run already, in turns."""
        from openenv_gym.vector import Opened

        def open_one(index: int, vector: dict[str, Any]) -> Opened:
            url = urls[index % len(urls)]
            how: dict[str, Any] = {"vector": vector, "ca_file": ca_file, **self._limits}
            return Opened(*reach(self._entry, url, dict(self.options), **how))

        return self._open(num_envs, num_sessions, open_one)

    def start(self, num_envs: int, num_servers: int) -> list[Member]:
        """Start servers, all of them at once, and open a session on each."""
        from openenv_gym.vector import Opened, slices

        num_servers = min(num_servers, num_envs)
        plan = slices(num_envs, num_servers)
        running: dict[int, RunningServer] = {}

        def launch(index: int) -> RunningServer:
            return start(
                self._entry,
                self._provider,
                allow_unisolated=self._allow_unisolated,
                num_servers=num_servers,
                num_envs=plan[index][1],
            )

        def start_one(index: int) -> None:
            running[index] = launch(index)

        def open_one(index: int, vector: dict[str, Any]) -> Opened:
            server = running.pop(index, None) or launch(index)
            connection = open_session(
                self._entry, server, self.options, vector=vector, **self._limits
            )
            return Opened(connection, server.stop)

        with contextlib.ExitStack() as undo:
            undo.callback(lambda: _stop_all(list(running.values())))
            start_one(0)  # alone: it may have to build an image, or fail for all the others
            _at_once(start_one, range(1, num_servers))
            members = self._open(num_envs, num_servers, open_one)
            undo.pop_all()
        return members

    def lodge(self, num_envs: int, num_servers: int) -> list[Member]:
        """Start servers, and open a session for each sub-environment, which shares nothing else."""
        from openenv_gym.vector import Opened, slices

        lodgings: list[Lodging] = []
        plan: list[Lodging] = []
        for _, size in slices(num_envs, num_servers):
            launch = functools.partial(
                start,
                self._entry,
                self._provider,
                allow_unisolated=self._allow_unisolated,
                num_servers=num_servers,
                num_envs=size,
                isolate_sessions=True,
            )
            lodgings.append(Lodging(launch))
            plan += [lodgings[-1]] * size
        limits = {**self._limits, "wait_s": max(self._limits["wait_s"], _ROOM_S)}

        def open_one(index: int, vector: dict[str, Any]) -> Opened:
            stay = plan[index].enter()
            with stay.opening():
                connection = open_session(self._entry, stay, self.options, vector=vector, **limits)
            return Opened(connection, stay.stop)

        with contextlib.ExitStack() as undo:
            held: list[Stay] = []
            undo.callback(_stop_all, held)
            held.append(lodgings[0].enter())  # alone: see `start`
            _at_once(lambda index: held.append(lodgings[index].enter()), range(1, num_servers))
            return self._open(num_envs, num_envs, open_one)

    def _open(
        self,
        num_envs: int,
        num_sessions: int,
        open_one: Callable[[int, dict[str, Any]], Opened],
    ) -> list[Member]:
        from openenv_gym.vector import Member, slices
        from openenv_gym.vector.spaces import as_mismatch

        plan = slices(num_envs, min(num_sessions, num_envs))
        members: dict[int, Member] = {}

        def open_slice(index: int) -> Opened:
            first, size = plan[index]
            return open_one(index, {**self._described, "num_envs": size, "first": first})

        def make_member(index: int) -> None:
            opened = open_slice(index)
            try:
                members[index] = Member(opened, plan[index][0], lambda: open_slice(index))
            except BaseException:
                opened.connection.close()
                opened.release(0.0)
                raise

        try:
            _at_once(make_member, range(len(plan)))
        except BaseException as error:
            for member in members.values():
                member.discard()
            if isinstance(error, errors.InvalidOptionError):
                raise as_mismatch(error, self._described["observation_mode"]) from error
            raise
        return [members[index] for index in range(len(plan))]


def _worthwhile(entry: CatalogueEntry, num_envs: int) -> int:
    """Return how many servers pay: a request, a reply and a wake-up take what many steps take."""
    cores = os.cpu_count() or 1
    if entry.step_us is None:
        return cores
    return max(min(round(num_envs * entry.step_us / _SERVER_US), cores), 1)


def _vectorized(entry: CatalogueEntry, options: dict[str, Any]) -> bool:
    """Tell whether one server steps all sub-environments at once, in threads of its own."""
    wanted = entry.vectorized
    return wanted is not None and all(options.get(key) == wanted[key] for key in wanted)


def _at_once(work: Callable[[int], None], indices: Sequence[int]) -> None:
    """Call a function with each of several numbers, in threads that end with the last call.

    Raises:
        BaseException: What the first of them raised; by then all have ended.
    """
    if len(indices) < 2:
        for index in indices:
            work(index)
        return
    with concurrent.futures.ThreadPoolExecutor(min(len(indices), _AT_ONCE)) as pool:
        calls = [pool.submit(work, index) for index in indices]
    for call in calls:
        call.result()


def _stop_all(running: Sequence[RunningServer]) -> None:
    for server in running:
        server.stop()


def _positive(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 1:
        raise errors.InvalidOptionError(
            f"{name}={value!r:.60}: expected an integer of at least 1.", field=name
        )
    return int(value)
