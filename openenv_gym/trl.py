"""Environments for TRL's trainers: ``GRPOTrainer(environment_factory=environment(id))``.

::

    from openenv_gym.trl import component, environment

    trainer = GRPOTrainer(
        model=model,
        train_dataset=Dataset.from_list(rows(64, prompt="Play a game of blackjack.")),
        environment_factory=environment("openenv/TextBlackjack-v0"),
        args=args,
    )

Neither TRL nor PyTorch is imported here. docs/llm_trainers.md has more.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import math
import operator
import re
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from openenv_gym import errors
from openenv_gym.agents.episode import Episode
from openenv_gym.agents.functions import tool_function
from openenv_gym.agents.pool import AgentPool
from openenv_gym.agents.session import AgentSession
from openenv_gym.agents.tools import AgentTool
from openenv_gym.client.background import run_blocking


__all__ = [
    "EnvironmentFactory",
    "RewardComponent",
    "RolloutFunction",
    "component",
    "environment",
    "episode_reward",
    "rollout_func",
    "rows",
]

_OWNS_REWARD = (1, 8)
"""From this release of TRL on `get_reward` is no tool but the environment's reward."""


def environment(
    env_id: str, *, owns_reward: bool = True, columns: Sequence[str] = (), **pool: Any
) -> EnvironmentFactory:
    """Return what TRL's ``environment_factory`` takes.

    Nothing is started before the trainer makes the first environment. It can be pickled, as
    `AsyncGRPOTrainer` needs it.

    Args:
        env_id: One of our ids.
        owns_reward: The environments have `get_reward`, from TRL 1.8 on: the sum of an episode's
            rewards. Without it, pass ``reward_funcs=[episode_reward]``, or `component`.
        columns: Columns of the dataset that are options of the environment's reset. ``seed`` is
            always taken.
        **pool: Further arguments of `AgentPool`: where servers run, which tools there are, what
            becomes of failures, options of the environment.

    Raises:
        UnknownEnvironmentError: There is no such id.
        InvalidOptionError: An argument has a value that is not taken.
    """
    return EnvironmentFactory(
        AgentPool(env_id, **pool), owns_reward=owns_reward, columns=tuple(columns)
    )


class EnvironmentFactory:
    """Makes environments for TRL; see `environment`.

    Attributes:
        pool: Where their sessions come from.
    """

    def __init__(self, pool: AgentPool, *, owns_reward: bool, columns: tuple[str, ...]) -> None:
        self.pool = pool
        self._owns_reward = owns_reward
        self._columns = columns
        self._lock = threading.Lock()
        self._class: type[_Environment] | None = None

    def __call__(self) -> Any:
        """Make an environment. The first one starts a server and asks it for the tools.

        Raises:
            InvalidOptionError: The environment has no such tools.
            OpenEnvGymError: There is no server, or it fails.
        """
        session = self.pool.session()
        with self._lock:
            if self._class is None:
                self._class = self._make_class()
            return self._class(session, self.pool, self._columns)

    def close(self) -> None:
        """End the sessions of all environments, and thereby their servers."""
        self.pool.close()

    def _make_class(self) -> type[_Environment]:
        # TRL finds tools on the class, and calls the reward after the class.
        name = re.sub(r"\W", "", self.pool.env_id.rpartition("/")[2].rpartition("-v")[0]) or "Env"
        methods: dict[str, Any] = {
            tool.name: tool_function(tool, _Environment._call) for tool in self.pool.abilities.tools
        }
        if self._owns_reward and _trl_release() >= _OWNS_REWARD:
            methods["get_reward"] = _get_reward
        return type(name, (_Environment,), methods)

    def __reduce__(self) -> tuple[Any, ...]:
        return _factory_again, (self.pool, self._owns_reward, self._columns)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.pool.env_id!r})"


def _factory_again(pool: AgentPool, owns_reward: bool, columns: tuple[str, ...]) -> Any:
    return EnvironmentFactory(pool, owns_reward=owns_reward, columns=columns)


class _Environment:
    """What TRL resets and whose tools it calls; its other functions are private, as TRL wants it.

    Attributes:
        episode: The last episode; None before the first one.
        reward: What it earned so far.
        done: It is over.
    """

    episode: Episode | None = None
    reward: float = 0.0
    done: bool = False

    def __init__(self, session: AgentSession, pool: AgentPool, columns: tuple[str, ...]) -> None:
        self._session = session
        self._pool = pool
        self._columns = columns

    def reset(self, **row: Any) -> str:
        """Begin an episode, with the seed of the dataset's row.

        Args:
            **row: A row of the dataset.

        Returns:
            What the model is told, to be added to the prompt.
        """
        if self._session.episode is None:
            # TRL resets one after the other: whoever comes first connects all of them at once.
            run_blocking(self._pool.connect())
        if "seed" not in row:
            _warn_of_seeds()
        options = {name: row[name] for name in self._columns if row.get(name) is not None}
        turn = run_blocking(self._session.begin(seed=_seed(row.get("seed")), options=options))
        self._note()
        return turn.text

    def _call(self, tool: AgentTool, arguments: dict[str, Any]) -> str:
        try:
            turn = run_blocking(self._session.call(tool.name, arguments))
        finally:
            self._note()
        if turn.refused:
            # TRL shows the model what an exception says, and counts it.
            raise errors.InvalidActionError(turn.text)
        return turn.text

    def _note(self) -> None:
        self.episode = episode = self._session.episode
        self.reward = self._session.score
        self.done = episode is not None and episode.done


def _get_reward(self: _Environment) -> float:
    """Return what the episode earned.

    Raises:
        OpenEnvGymError: Its server failed, which TRL has shown to the model alone.
    """
    if self.episode is None:
        return 0.0
    _check_failure(self.episode)
    return self.reward


_get_reward.__name__ = _get_reward.__qualname__ = "get_reward"


def _check_failure(episode: Episode) -> None:
    if episode.failure is not None and episode.must_raise:
        raise episode.failure


def _seed(value: Any) -> int | None:
    if value is None:
        return None
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise errors.InvalidOptionError(
            f"seed={value!r:.80}: expected an integer from 0, or none.", field="seed"
        ) from None


def _warn_of_seeds() -> None:
    warnings.warn(
        "The dataset has no column `seed`, so that the members of a group play different episodes, "
        "and their rewards do not compare. openenv_gym.trl.rows makes rows with seeds; a column of "
        "None says that this is meant.",
        UserWarning,
        stacklevel=3,
    )


def _trl_release() -> tuple[int, ...]:
    try:
        version = importlib.metadata.version("trl")
    except importlib.metadata.PackageNotFoundError:
        return _OWNS_REWARD  # nobody will take it for a tool
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])


# -- datasets and rewards -----------------------------------------------------------------------


def rows(
    number: int, *, seed: int = 0, prompt: str | Sequence[Mapping[str, Any]] = "", **columns: Any
) -> list[dict[str, Any]]:
    """Return rows of a dataset, each with a seed of its own: ``Dataset.from_list(rows(64))``.

    Args:
        number: How many.
        seed: That of the first one.
        prompt: What comes before the environment's first words: text, or messages.
        **columns: Further columns, equal in all rows.
    """
    if isinstance(prompt, str):
        messages = [{"role": "user", "content": f"{prompt}\n" if prompt else ""}]
    else:
        messages = [dict(message) for message in prompt]
    return [{"prompt": messages, "seed": seed + each, **columns} for each in range(number)]


def component(name: str) -> RewardComponent:
    """Return a reward function: the sum of what a part of the environment's rubric gave.

    TRL logs it as ``rewards/NAME``. Where the environment owns the reward already, give it the
    weight 0: ``GRPOConfig(reward_weights=[0.0, ...])``.

    Args:
        name: The part's dotted name, as in ``info["reward_components"]``.
    """
    return RewardComponent(name)


class RewardComponent:
    """One part of a rubric as TRL's reward function; see `component`."""

    def __init__(self, name: str) -> None:
        self._name = self.__name__ = name

    def __call__(
        self, *, environments: Any = None, episode: Any = None, **columns: Any
    ) -> list[float | None]:
        """Return what each episode got; None where the part never ran."""
        given = []
        for each in _episodes(environments, episode):
            score = math.nan if each is None else each.components.get(self._name, math.nan)
            given.append(None if math.isnan(score) else score)
        return given


def episode_reward(
    *, environments: Any = None, episode: Any = None, **columns: Any
) -> list[float | None]:
    """Return what each episode earned: TRL's reward function where no environment owns it.

    Args:
        environments: TRL's environments, or
        episode: what `rollout_func` returned.
        **columns: All else that TRL passes.
    """
    return [None if each is None else each.score for each in _episodes(environments, episode)]


def _episodes(environments: Any, episodes: Any) -> list[Episode | None]:
    if environments is not None:
        # One run may mix environments of several kinds, not all of them ours.
        episodes = [getattr(each, "episode", None) for each in environments]
    if episodes is None:
        raise errors.ConfigurationError(
            "These rewards are those of an environment, and there is none.",
            hint="Pass environment_factory=environment(id), or rollout_func=rollout_func(id).",
        )
    for each in episodes:
        if each is not None:
            _check_failure(each)
    return list(episodes)


# -- rollouts -----------------------------------------------------------------------------------

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
        chat = _Chat(trainer)
        begun = run_blocking(_begin_all(sessions, self._seeds(len(prompts), trainer)))
        talks = [
            _Talk(chat.begin(prompt, turn.text))
            for prompt, turn in zip(prompts, begun, strict=True)
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


class _Talk:
    """The tokens of one episode, and which of them the model wrote."""

    def __init__(self, prompt_ids: list[int]) -> None:
        self.prompt_ids = prompt_ids
        self.completion_ids: list[int] = []
        self.mask: list[int] = []
        self.logprobs: list[float] | None = []

    @property
    def all_ids(self) -> list[int]:
        return self.prompt_ids + self.completion_ids

    def say(self, ids: list[int], logprobs: list[float] | None) -> None:
        self._add(ids, 1, logprobs)

    def hear(self, chat: _Chat, text: str) -> bool:
        """Add what the environment says; False where there is no room for it and a reply."""
        ids = chat.between(self.completion_ids, text)
        if len(self.completion_ids) + len(ids) >= chat.longest:
            return False
        self._add(ids, 0, None if self.logprobs is None else [0.0] * len(ids))
        return True

    def _add(self, ids: list[int], mask: int, logprobs: list[float] | None) -> None:
        self.completion_ids += ids
        self.mask += [mask] * len(ids)
        if logprobs is None or self.logprobs is None:
            self.logprobs = None
        else:
            self.logprobs += logprobs


_MARK = "openenv-gym-was-here"


class _Chat:
    """Turns of a conversation as tokens, by the trainer's chat template.

    Attributes:
        longest: How many tokens may follow the prompt.
    """

    def __init__(self, trainer: Any) -> None:
        self._tokenizer = trainer.processing_class
        self._template = getattr(trainer, "chat_template", None)
        self._options = dict(getattr(trainer, "chat_template_kwargs", None) or {})
        self.longest = trainer.max_completion_length
        self._is_chat = True

    def begin(self, prompt: Any, seen: str) -> list[int]:
        """Return the tokens of a prompt, with what the environment says first."""
        if isinstance(prompt, str):
            self._is_chat = False
            return self._ids(f"{prompt}{seen}")
        messages = [*prompt[:-1], {**prompt[-1], "content": f"{prompt[-1]['content']}{seen}"}]
        return self._ids(self._render(messages, True))

    def between(self, said: list[int], seen: str) -> list[int]:
        """Return the tokens between a reply and the next one."""
        if not self._is_chat:
            return self._ids(f"\n{seen}\n")
        messages = [
            {"role": "user", "content": "-"},
            {"role": "assistant", "content": _MARK},
            {"role": "user", "content": seen},
        ]
        after = self._render(messages, True).rpartition(_MARK)[2]
        end = self._tokenizer.eos_token
        if end and said and said[-1] == self._tokenizer.eos_token_id:
            after = after.removeprefix(end)  # the model has written it itself
        return self._ids(after)

    def text(self, ids: list[int]) -> str:
        """Return what the model said."""
        return str(self._tokenizer.decode(ids, skip_special_tokens=True)).strip()

    def _render(self, messages: list[Any], generate: bool) -> str:
        rendered: str = self._tokenizer.apply_chat_template(
            messages,
            tokenize=False,
            add_generation_prompt=generate,
            chat_template=self._template,
            **self._options,
        )
        return rendered

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids
