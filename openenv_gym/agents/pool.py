"""Sessions of many agents, spread over few servers."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import threading
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from openenv_gym import errors
from openenv_gym.agents.session import AgentSession, Observe, OnFailure, Rules, there
from openenv_gym.agents.tools import Abilities, ToolChoice
from openenv_gym.client.background import run_blocking
from openenv_gym.client.link import seconds
from openenv_gym.openenv import MCPToolClient
from openenv_gym.registration import lookup
from openenv_gym.registration.lodging import Lodging
from openenv_gym.registration.make import choose_place, session_options
from openenv_gym.registration.starting import start


if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from openenv_gym.providers import Provider

__all__ = ["AgentPool"]

_CONNECT_AT_ONCE = 16  # who starts a container for each session starts as many of them at once


class AgentPool:
    """Where sessions of agents come from: an id, and the servers that play it.

    Nothing is started before the first session is used. A pool can be pickled: elsewhere it starts
    servers of its own. Servers end with the last of their sessions, with `close`, and with this
    process.

    Args:
        env_id: One of our ids, such as ``openenv/TextBlackjack-v0``; ``openenv/Remote-v0`` for
            whatever the server at `base_url` serves, OpenEnv's included.
        provider: Where servers run; see `gymnasium.make` with our ids.
        base_url: Address of a server that runs already, or several addresses, over which sessions
            are spread.
        num_servers: Servers that are started, over which sessions are spread. An environment that
            runs untrusted code has a server for each session instead.
        allow_unisolated: Run such an environment where nothing contains it.
        timeout_s: Limit of each request.
        tools: Which tools an agent gets; see `ToolChoice`.
        on_failure: ``"raise"``: a server that fails is an exception. ``"end"``: it is the end of
            the episode, `Episode.failure` tells of it, and the next episode has another server.
        failure_reward: With ``"end"``: what an episode earns by that.
        unfinished_reward: What an episode earns that the agent leaves before its end.
        refused_reward: What a turn earns that was refused: a call with arguments that do not fit, a
            tool that failed, anything after the end.
        max_turns: Turns after which an episode is truncated; by default the id's own limit.
        observe: Makes words of an observation's fields; by default `observation_text`.
        reset_options: Options of each reset.
        **options: What the environment is made with.

    Raises:
        UnknownEnvironmentError: There is no such id.
        InvalidOptionError: An argument has a value that is not taken; `field` names it.
    """

    def __init__(
        self,
        env_id: str,
        *,
        provider: str | Provider | None = None,
        base_url: str | Sequence[str] | None = None,
        num_servers: int = 1,
        allow_unisolated: bool = False,
        timeout_s: float = 120.0,
        tools: ToolChoice = "auto",
        on_failure: OnFailure = "raise",
        failure_reward: float = 0.0,
        unfinished_reward: float = 0.0,
        refused_reward: float = 0.0,
        max_turns: int | None = None,
        observe: Observe | None = None,
        reset_options: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self._recipe = {name: value for name, value in locals().items() if name not in _NO_RECIPE}
        entry = lookup(env_id)
        self.env_id = entry.id
        if type(num_servers) is not int or num_servers < 1:
            raise errors.InvalidOptionError(
                f"num_servers={num_servers!r:.80}: expected an integer from 1.", field="num_servers"
            )
        self._timeout_s = seconds("timeout_s", timeout_s)
        place, where = choose_place(provider, base_url, None)
        self._urls: list[str] = []
        if place == "base_url":
            self._urls = [where] if isinstance(where, str) else [str(each) for each in where]
        if place == "base_url" and not self._urls:
            raise errors.InvalidOptionError("base_url=[]: there is no address.", field="base_url")
        if place != "base_url" and entry.package is None:
            raise errors.InvalidOptionError(
                f"{entry.id} connects to a server that runs already, and base_url is missing.",
                field="base_url",
            )
        self._launch = functools.partial(
            start,
            entry,
            provider,
            allow_unisolated=allow_unisolated,
            num_servers=num_servers,
        )
        self._apart = entry.untrusted and not allow_unisolated
        self._num_servers = num_servers
        self._made_with = session_options(entry, None, {**entry.kwargs, **options})
        self._rules = Rules(
            on_failure=on_failure,
            failure_reward=failure_reward,
            unfinished_reward=unfinished_reward,
            refused_reward=refused_reward,
            max_turns=entry.max_episode_steps if max_turns is None else max_turns,
            observe=observe,
            options=dict(reset_options or {}),
        )
        self._choice = tools
        self._abilities: Abilities | None = None
        self._begin_here()

    def _begin_here(self) -> None:
        """Be the pool of this process; servers of a parent's are not ours."""
        self._owner_pid = os.getpid()
        self._lock = threading.RLock()
        self._count = 0
        self._houses: list[Lodging] = [Lodging(self._launch) for _ in range(self._num_servers)]
        self._spare: MCPToolClient | None = None
        self._idle: list[AgentSession] = []
        self._sessions: weakref.WeakSet[AgentSession] = weakref.WeakSet()

    # -- for users ----------------------------------------------------------------------------

    @property
    def abilities(self) -> Abilities:
        """What an agent may do; a server is asked once.

        Raises:
            InvalidOptionError: The environment has no such tools.
            OpenEnvGymError: There is no server, or it fails.
        """
        with self._lock:
            if self._abilities is None:
                client = self._open_client()
                try:
                    described = run_blocking(client.describe_actions())
                    self._abilities = Abilities.of(described, self._choice)
                except BaseException:
                    run_blocking(client.close())
                    raise
                self._spare = client  # the first session's
            return self._abilities

    def session(self) -> AgentSession:
        """Return a place for an agent; it is connected when it is first used.

        It ends when nobody holds it any more. `give_back` lets somebody else have it.

        Raises:
            OpenEnvGymError: As `abilities`.
        """
        abilities = self.abilities
        with self._lock:
            if self._idle:
                return self._idle.pop()
            spare, self._spare = self._spare, None
            made = AgentSession(self._open_client, abilities, self._rules, spare)
            self._sessions.add(made)
            return made

    async def asession(self) -> AgentSession:
        """Return what `session` returns, and do not block the loop until a server has started."""
        return await asyncio.to_thread(self.session)

    def give_back(self, session: AgentSession) -> None:
        """Keep a session, connected as it is, for whoever asks for one next."""
        with self._lock:
            self._idle.append(session)

    async def connect(self) -> None:
        """Connect all sessions that there are, several at a time."""
        await there(self._connect_all())

    async def aclose(self) -> None:
        """End all sessions, and thereby the servers."""
        with self._lock:
            sessions, spare = list(self._sessions), self._spare
            self._spare = None
            self._idle.clear()
        closing = [each.close() for each in sessions]
        if spare is not None:
            closing.append(there(spare.close()))
        await asyncio.gather(*closing)

    def close(self) -> None:
        """End all sessions, and thereby the servers; a later episode starts others."""
        run_blocking(self.aclose())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (dict(self._recipe), self._abilities)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.env_id!r})"

    # -- servers ------------------------------------------------------------------------------

    def _open_client(self) -> MCPToolClient:
        with self._lock:
            if self._owner_pid != os.getpid():
                self._begin_here()
            number, self._count = self._count, self._count + 1
        how: dict[str, Any] = {"message_timeout_s": self._timeout_s, "options": self._made_with}
        if self._urls:
            return MCPToolClient(base_url=self._urls[number % len(self._urls)], **how)
        if self._apart:
            return MCPToolClient(provider=self._launch, **how)
        return MCPToolClient(provider=self._houses[number % len(self._houses)].enter, **how)

    async def _connect_all(self) -> None:
        at_once = asyncio.Semaphore(_CONNECT_AT_ONCE)

        async def connect(session: AgentSession) -> None:
            async with at_once:
                # What is wrong is told by the session's own first call.
                with contextlib.suppress(errors.OpenEnvGymError):
                    await session.connect()

        waiting = [each for each in list(self._sessions) if not each.connected]
        await asyncio.gather(*(connect(each) for each in waiting))


_NO_RECIPE = frozenset({"self", "__class__"})


def _again(recipe: dict[str, Any], abilities: Abilities | None) -> AgentPool:
    """Make an equal pool where a pickle of the first one arrives."""
    options = recipe.pop("options")
    made = AgentPool(**recipe, **options)
    made._abilities = abilities
    return made
