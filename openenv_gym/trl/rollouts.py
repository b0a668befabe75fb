"""What TRL's ``rollout_func`` takes: episodes of models that speak and call no tools."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any

from openenv_gym import errors
from openenv_gym.agents.pool import AgentPool
from openenv_gym.agents.session import AgentSession
from openenv_gym.client.background import run_blocking
from openenv_gym.trl.tokens import Chat, Talk


__all__ = ["RolloutFunction", "rollout_func"]

Generate = Callable[[list[list[int]], Any], tuple[list[list[int]], list[list[float]] | None]]
"""Generates a completion for each of some prompts, as ids; returns those and their log-probs."""


def rollout_func(
    env_id: str,
    *,
    seed: int = 0,
    max_replies: int = 8,
    generate: Generate | None = None,
    **pool: Any,
) -> RolloutFunction:
    """Return what TRL's ``rollout_func`` takes, for models that speak and call no tools.

    All episodes of a batch are played at once: each round generates one batch. Pass
    ``reward_funcs=[episode_reward]``, or `component`, with it.

    Args:
        env_id: One of our ids, whose action is what the model says.
        seed: TRL passes no rows to such a function, so groups are seeded by their number, counted
            from here.
        max_replies: Replies after which an episode is left.
        generate: Generates; by default as the trainer itself does.
        **pool: Further arguments of `AgentPool`.

    Raises:
        UnknownEnvironmentError: There is no such id.
        InvalidOptionError: An argument has a value that is not taken.
    """
    if max_replies < 1:
        raise errors.InvalidOptionError(
            f"max_replies={max_replies!r:.80}: expected an integer from 1.", field="max_replies"
        )
    return RolloutFunction(AgentPool(env_id, **pool), seed, max_replies, generate or _generate)


class RolloutFunction:
    """Plays the episodes of a batch; see `rollout_func`."""

    def __init__(self, pool: AgentPool, seed: int, max_replies: int, generate: Generate) -> None:
        self.pool = pool
        self._next_seed = seed
        self._max_replies = max_replies
        self._generate = generate
        self._sessions: list[AgentSession] = []

    def __call__(self, prompts: list[Any], trainer: Any) -> dict[str, Any]:
        """Play an episode for each prompt.

        Args:
            prompts: Conversations, or texts; those of a group are neighbours.
            trainer: TRL's trainer.

        Returns:
            ``prompt_ids``, ``completion_ids``, ``logprobs``, ``env_mask`` (1 for what the model
            wrote), and ``episode`` for reward functions.
        """
        while len(self._sessions) < len(prompts):
            self._sessions.append(self.pool.session())
        sessions = self._sessions[: len(prompts)]
        chat = Chat(trainer)
        begun = run_blocking(_begin_all(sessions, self._seeds(len(prompts), trainer)))
        talks = [
            Talk(chat.begin(prompt, turn.text)) for prompt, turn in zip(prompts, begun, strict=True)
        ]
        going = list(range(len(talks)))
        for reply in range(self._max_replies):
            asked = [talks[each].all_ids for each in going]
            completions, logprobs = self._generate(asked, trainer)
            for number, each in enumerate(going):
                talks[each].say(completions[number], logprobs[number] if logprobs else None)
            texts = [chat.text(ids) for ids in completions]
            turns = run_blocking(_answer_all([sessions[each] for each in going], texts))
            last = reply == self._max_replies - 1
            still = []
            for each, turn in zip(going, turns, strict=True):
                if not (turn.done or last) and talks[each].hear(chat, turn.text):
                    still.append(each)
            going = still
            if not going:
                break
        known = all(talk.logprobs is not None for talk in talks)
        return {
            "prompt_ids": [talk.prompt_ids for talk in talks],
            "completion_ids": [talk.completion_ids for talk in talks],
            "logprobs": [talk.logprobs for talk in talks] if known else None,
            "env_mask": [talk.mask for talk in talks],
            "episode": [session.episode for session in sessions],
        }

    def _seeds(self, number: int, trainer: Any) -> list[int]:
        """Return a seed for each prompt of this process, the same for members of a group."""
        training = trainer.model.training
        size = trainer.num_generations if training else trainer.num_generations_eval
        first = number * trainer.accelerator.process_index
        base = self._next_seed
        self._next_seed += math.ceil(number * trainer.accelerator.num_processes / size)
        return [base + (first + each) // size for each in range(number)]

    def close(self) -> None:
        """End all sessions, and thereby their servers."""
        self.pool.close()


async def _begin_all(sessions: list[AgentSession], seeds: list[int]) -> list[Any]:
    places = zip(sessions, seeds, strict=True)
    return await asyncio.gather(*(session.begin(seed=seed) for session, seed in places))


async def _answer_all(sessions: list[AgentSession], texts: list[str]) -> list[Any]:
    places = zip(sessions, texts, strict=True)
    return await asyncio.gather(*(session.answer(text) for session, text in places))


def _generate(prompts: list[list[int]], trainer: Any) -> tuple[list[list[int]], Any]:
    """Generate as the trainer does, with whatever engine it has."""
    generated: tuple[list[list[int]], Any] = trainer._generate_single_turn(
        prompts, None, {}, num_generations=1
    )
    return generated
