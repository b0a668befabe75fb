"""One agent in one environment: an episode after the other, whatever trainer asks for them."""

from __future__ import annotations

import asyncio
import contextlib
import math
import re
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, get_args

from openenv_gym import errors
from openenv_gym.agents.episode import Episode, Turn
from openenv_gym.agents.tools import Abilities
from openenv_gym.agents.words import observation_text, result_text
from openenv_gym.client.background import start_in_background
from openenv_gym.models import CallToolObservation, StepResult
from openenv_gym.openenv import MCPToolClient


__all__ = ["AgentSession", "Observe", "OnFailure", "Rules", "there"]

T = TypeVar("T")

OnFailure = Literal["raise", "end"]
"""What becomes of an episode whose server fails: an exception, or its end."""

Observe = Callable[[Mapping[str, Any]], str]
"""Makes words of an observation's fields."""

_COMPONENTS = "reward_components"
_CLOSE_S = 10.0
_OVER = "The episode is over."
_PLACE = re.compile(r"^(\[\d+\])+")  # of the action in the message, which a model knows nothing of
_LOST = (errors.TransportError, errors.SessionError)


@dataclass(frozen=True)
class Rules:
    """What holds for every episode, beside what its environment says.

    Attributes:
        on_failure: What becomes of an episode whose server fails.
        failure_reward: With ``"end"``: what such an episode earns by that.
        unfinished_reward: What an episode earns that the agent leaves before its end.
        refused_reward: What a turn earns that was refused, also one after the end.
        max_turns: Turns after which an episode is truncated; None for what the id says.
        observe: Makes words of observations, in place of `observation_text`.
        options: Options of each reset.
    """

    on_failure: OnFailure = "raise"
    failure_reward: float = 0.0
    unfinished_reward: float = 0.0
    refused_reward: float = 0.0
    max_turns: int | None = None
    observe: Observe | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.on_failure not in get_args(OnFailure):
            raise errors.InvalidOptionError(
                f"on_failure={self.on_failure!r:.80}: expected 'raise' or 'end'.",
                field="on_failure",
            )
        for name in ("failure_reward", "unfinished_reward", "refused_reward"):
            value = getattr(self, name)
            if not isinstance(value, (int, float)) or not math.isfinite(value):
                raise errors.InvalidOptionError(
                    f"{name}={value!r:.80}: expected a finite number.", field=name
                )
        if self.max_turns is not None and (type(self.max_turns) is not int or self.max_turns < 1):
            raise errors.InvalidOptionError(
                f"max_turns={self.max_turns!r:.80}: expected an integer from 1, or none.",
                field="max_turns",
            )


async def there(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the loop of all blocking clients, and wait for it in any other one.

    So a session may be used from several loops, one after the other.
    """
    return await asyncio.wrap_future(start_in_background(coroutine))


class AgentSession:
    """An agent's place in an environment, which is connected by the first call.

    Its methods may be awaited in any event loop; who has none takes `run_blocking`. Calls run one
    after the other.

    Args:
        open_client: Makes a client that is not connected yet.
        abilities: What the agent may do.
        rules: What holds for every episode.

    Attributes:
        abilities: What the agent may do.
        episode: The episode; None before the first one.
    """

    def __init__(
        self,
        open_client: Callable[[], MCPToolClient],
        abilities: Abilities,
        rules: Rules,
        client: MCPToolClient | None = None,
    ) -> None:
        self.abilities = abilities
        self.episode: Episode | None = None
        self._rules = rules
        self._open_client = open_client
        self._client = client
        self._lock = asyncio.Lock()
        self._before: dict[str, Any] = {}

    @property
    def connected(self) -> bool:
        """There is a session on a server."""
        return self._client is not None

    @property
    def score(self) -> float:
        """What the episode earned so far; see `Episode.score`."""
        return 0.0 if self.episode is None else self.episode.score

    async def begin(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> Turn:
        """Begin an episode, in a new session where the last one was lost.

        Args:
            seed: Equal seeds are equal episodes.
            options: Further options of the environment's reset.

        Raises:
            InvalidOptionError: The environment does not take these.
            OpenEnvGymError: There is no server, or it fails.
        """
        return await there(self._begin(seed, {**self._rules.options, **(options or {})}))

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Turn:
        """Call a tool.

        What the agent did wrong (unknown tools, arguments that do not fit, tools that fail) is a
        turn that was refused, with a text for it to read.

        Raises:
            ResetNeededError: No episode has begun.
            OpenEnvGymError: The server failed, and the rules say ``on_failure="raise"``.
        """
        return await there(self._turn(lambda: self.abilities.tool(name).payload(arguments)))

    async def answer(self, text: str) -> Turn:
        """Take what the agent says for its action; see `call`."""
        speech = self.abilities.speech
        if speech is None:
            raise errors.ConfigurationError(
                "What the agent says is no action: the environment takes several kinds of them, "
                "or none.",
                hint="Let it call tools.",
            )
        return await there(self._turn(lambda: speech.payload(speech.read(text))))

    async def refuse(self, why: str) -> Turn:
        """Count a turn that was no action at all, and tell the agent why."""

        def raising() -> dict[str, Any]:
            raise errors.InvalidActionError(why)

        return await there(self._turn(raising))

    async def connect(self) -> None:
        """Connect, where that was not done yet."""
        await there(self._connect())

    async def close(self) -> None:
        """End the session; the next `begin` opens another one."""
        await there(self._drop())

    # -- on the clients' loop -------------------------------------------------------------------

    async def _connect(self) -> None:
        async with self._lock:
            await self._connected()

    async def _connected(self) -> MCPToolClient:
        if self._client is None:
            client = self._open_client()
            try:
                await client.connect()
            except BaseException:
                await client.close()
                raise
            self._client = client
        return self._client

    async def _begin(self, seed: int | None, options: dict[str, Any]) -> Turn:
        asked: dict[str, Any] = {} if seed is None else {"seed": seed}
        if options:
            asked["options"] = options
        async with self._lock:
            self.episode = None
            fresh = self._client is None
            try:
                result = await (await self._connected()).reset(**asked)
            except _LOST:
                await self._drop()
                if fresh:
                    raise
                # Nothing of this episode is lost yet: only the one before had that server.
                result = await (await self._connected()).reset(**asked)
            self.episode = Episode(
                seed,
                unfinished_reward=self._rules.unfinished_reward,
                must_raise=self._rules.on_failure == "raise",
            )
            self._before = {}
            return self._read(result)

    async def _turn(self, payload: Callable[[], dict[str, Any]]) -> Turn:
        async with self._lock:
            episode = self.episode
            if episode is None:
                raise errors.ResetNeededError("No episode has begun.", hint="Begin one first.")
            if episode.failure is not None and episode.must_raise:
                raise episode.failure
            if episode.done:
                turn = self._refusal(_OVER, done=True, truncated=episode.truncated)
                episode.add(turn)
                return turn
            turn = await self._play(episode, payload)
            limit = self._rules.max_turns
            if not turn.done and limit is not None and episode.turns + 1 >= limit:
                text = f"{turn.text}\n{_OVER}"
                turn = Turn(**{**vars(turn), "text": text, "done": True, "truncated": True})
            episode.add(turn)
            return turn

    async def _play(self, episode: Episode, payload: Callable[[], dict[str, Any]]) -> Turn:
        try:
            if self._client is None:  # closed in the middle of the episode
                raise errors.SessionClosedError("The session was closed.", hint="Begin anew.")
            return self._read(await self._client.step(payload()))
        except errors.InvalidActionError as error:
            return self._refusal(str(error))
        except errors.EncodeError as error:
            # Raised here, before anything is sent: a model can write half of a surrogate pair, NaN,
            # or a number of thousands of digits.
            return self._refusal(f"This is no action: {_PLACE.sub('', str(error))}")
        except errors.OpenEnvGymError as error:
            # What the step did is unknown, or the server is: another session is as good as new.
            await self._drop()
            episode.failure = error
            if episode.must_raise:
                episode.done = episode.truncated = True
                raise
            text = f"{_OVER} Its environment failed."
            return Turn(text, self._rules.failure_reward, done=True, truncated=True)

    def _refusal(self, text: str, **more: Any) -> Turn:
        return Turn(text, self._rules.refused_reward, refused=True, **more)

    def _read(self, result: StepResult[Any]) -> Turn:
        seen, refused = result.observation, False
        if isinstance(seen, CallToolObservation):
            refused = seen.error is not None
            text = seen.error.message if seen.error is not None else result_text(seen.result)
        else:
            fields = dict(seen)
            observe = self._rules.observe
            text = observation_text(fields, self._before) if observe is None else observe(fields)
            self._before = fields
        metadata = dict(result.metadata)
        components = metadata.get(_COMPONENTS)
        reward = 0.0 if result.reward is None else float(result.reward)
        return Turn(
            text,
            reward + self._rules.refused_reward if refused else reward,
            done=bool(result.done),
            truncated=bool(result.truncated),
            refused=refused,
            components=_scores(components) if isinstance(components, Mapping) else {},
            metadata=metadata,
        )

    async def _drop(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            with contextlib.suppress(errors.OpenEnvGymError, asyncio.TimeoutError):
                await asyncio.wait_for(client.close(), _CLOSE_S)


def _scores(components: Mapping[str, Any]) -> dict[str, float]:
    """Return components as numbers; in OpenEnv's JSON those that did not run are null."""
    return {
        str(name): float("nan") if score is None else float(score)
        for name, score in components.items()
    }
