"""Episodes of a language model, whatever generates: plain coroutines for any trainer.

A *policy* is asked for what the model says next::

    async def policy(messages, tools):
        reply = await client.chat.completions.create(model=..., messages=messages, tools=tools)
        return reply.choices[0].message.model_dump(exclude_none=True)

It gets messages and tools as OpenAI's API has them, and returns text, or a message that may call
tools.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from openenv_gym import errors
from openenv_gym.agents.episode import Episode, Turn
from openenv_gym.agents.pool import AgentPool
from openenv_gym.agents.session import AgentSession
from openenv_gym.agents.tools import read_json


__all__ = ["Message", "Mode", "Policy", "Trajectory", "play", "play_all"]

Message = dict[str, Any]
Policy = Callable[[list[Message], list[dict[str, Any]]], Awaitable[str | Mapping[str, Any]]]

Mode = Literal["text", "tools"]
"""What a model does its actions by: all that it says is one, or it calls tools."""


@dataclass
class Trajectory:
    """An episode as a conversation.

    Attributes:
        messages: All of it, as OpenAI's API has messages.
        mask: For each message whether the model wrote it, and hence is trained on it.
        episode: What the episode added up to.
        reward: What it earned, with that of leaving it before its end.
        tools: The tools that the model had.
        turns: What each action led to.
    """

    messages: list[Message]
    mask: list[bool]
    episode: Episode
    reward: float = 0.0
    tools: list[dict[str, Any]] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)


async def play(
    session: AgentSession,
    policy: Policy,
    *,
    seed: int | None = None,
    prompt: str | Sequence[Message] = "",
    mode: Mode = "text",
    max_replies: int = 32,
    policy_timeout_s: float = 600.0,
    options: Mapping[str, Any] | None = None,
) -> Trajectory:
    """Play an episode.

    Args:
        session: The agent's place.
        policy: Says what the model says.
        seed: Equal seeds are equal episodes, so the members of a group share one.
        prompt: What comes before the first observation: text, or messages, to whose last one it is
            added.
        mode: ``"text"``: each reply is an action. ``"tools"``: a reply calls tools, and one that
            does not ends the conversation.
        max_replies: Replies after which the conversation ends.
        policy_timeout_s: How long a reply may take.
        options: Options of the environment's reset.

    Raises:
        InvalidOptionError: `mode` is neither.
        DeadlineExceededError: The policy took too long.
        OpenEnvGymError: The server failed, and the rules of the pool say ``on_failure="raise"``.
    """
    if mode not in get_args(Mode):
        raise errors.InvalidOptionError(
            f"mode={mode!r:.80}: expected 'text' or 'tools'.", field="mode"
        )
    tools = [tool.to_openai() for tool in session.abilities.tools] if mode == "tools" else []
    first = await session.begin(seed=seed, options=options)
    assert session.episode is not None
    messages = _opening(prompt, first.text)
    mask = [False] * len(messages)
    played = Trajectory(messages, mask, session.episode, tools=tools)
    for _ in range(max_replies):
        reply = await _reply(policy, list(messages), tools, policy_timeout_s)
        messages.append(reply)
        mask.append(True)
        if mode == "text":
            turn = await session.answer(str(reply.get("content") or ""))
            played.turns.append(turn)
            told = [{"role": "user", "content": turn.text}]
        else:
            told = [await _called(session, call, played) for call in reply.get("tool_calls") or ()]
        messages += told
        mask += [False] * len(told)
        if session.episode.done or not told:
            break
    played.reward = session.score
    return played


async def play_all(
    pool: AgentPool,
    policy: Policy,
    seeds: Iterable[int | None],
    *,
    concurrency: int = 64,
    **how: Any,
) -> list[Trajectory]:
    """Play an episode for each seed, many at once.

    Args:
        pool: Where sessions come from.
        policy: Says what the model says; it is asked by many episodes at once.
        seeds: One for each episode; the members of a group share one.
        concurrency: How many sessions there are at most.
        **how: Further arguments of `play`.

    Returns:
        The trajectories in the order of their seeds.

    Raises:
        Exception: What `play` raises; the other episodes are given up then.
    """
    if concurrency < 1:
        raise errors.InvalidOptionError(
            f"concurrency={concurrency!r:.80}: expected an integer from 1.", field="concurrency"
        )
    waiting = list(enumerate(seeds))[::-1]
    played: dict[int, Trajectory] = {}

    async def worker() -> None:
        session = await pool.asession()
        try:
            while waiting:
                number, seed = waiting.pop()
                played[number] = await play(session, policy, seed=seed, **how)
        finally:
            pool.give_back(session)

    workers = [asyncio.ensure_future(worker()) for _ in range(min(concurrency, len(waiting)))]
    try:
        await asyncio.gather(*workers)
    except BaseException:
        for each in workers:
            each.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        raise
    return [played[number] for number in sorted(played)]


def _opening(prompt: str | Sequence[Message], seen: str) -> list[Message]:
    if isinstance(prompt, str):
        return [{"role": "user", "content": f"{prompt}\n{seen}" if prompt else seen}]
    messages = [dict(message) for message in prompt]
    if not messages or messages[-1].get("role") != "user":
        return [*messages, {"role": "user", "content": seen}]
    messages[-1]["content"] = f"{messages[-1].get('content') or ''}{seen}"
    return messages


async def _reply(
    policy: Policy, messages: list[Message], tools: list[dict[str, Any]], limit_s: float
) -> Message:
    try:
        said = await asyncio.wait_for(policy(messages, tools), limit_s)
    except asyncio.TimeoutError as error:
        raise errors.DeadlineExceededError(
            f"The policy did not reply within {limit_s:g} s.",
            field="policy_timeout_s",
            data={"timeout_s": limit_s},
        ) from error
    return {"role": "assistant", "content": said} if isinstance(said, str) else dict(said)


async def _called(session: AgentSession, call: Mapping[str, Any], played: Trajectory) -> Message:
    function = call.get("function") or {}
    name, arguments = str(function.get("name")), function.get("arguments") or {}
    if isinstance(arguments, str):
        try:
            arguments = read_json(arguments)
        except ValueError:
            arguments = None
    if isinstance(arguments, Mapping):
        turn = await session.call(name, arguments)
    else:
        turn = await session.refuse(f"The arguments of {name} are no JSON object.")
    played.turns.append(turn)
    message = {"role": "tool", "name": name, "content": turn.text}
    return {**message, "tool_call_id": call["id"]} if "id" in call else message
