"""Environments for SkyRL: text in, text out, as `skyrl_gym` has it.

::

    import openenv_gym.skyrl

    openenv_gym.skyrl.register("blackjack", "openenv/TextBlackjack-v0", num_servers=2)

Rows of the dataset then name ``env_class: blackjack``, and their ``seed`` seeds the episode.
docs/llm_trainers.md has more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from openenv_gym.agents.shared import shared_pool
from openenv_gym.client.background import run_blocking


try:
    import skyrl_gym
    from skyrl_gym.envs.base_text_env import BaseTextEnv
except ModuleNotFoundError as error:
    if error.name != "skyrl_gym":
        raise
    raise ModuleNotFoundError(
        "skyrl_gym is not installed; run pip install skyrl-gym.", name=error.name
    ) from error

__all__ = ["OpenEnvTextEnv", "register"]


def register(name: str, env_id: str, **pool: Any) -> None:
    """Register an id with SkyRL.

    Args:
        name: What rows of the dataset call it (``env_class``).
        env_id: One of our ids, whose action is what the model says.
        **pool: Further arguments of `AgentPool`, as plain data.
    """
    skyrl_gym.register(
        id=name,
        entry_point=f"{__name__}:OpenEnvTextEnv",
        kwargs={"config": {"env_id": env_id, **pool}},
    )


class OpenEnvTextEnv(BaseTextEnv):  # type: ignore[misc]  # it has no types
    """One episode. SkyRL makes one for each trajectory; their sessions stay connected between.

    Args:
        env_config: What SkyRL's configuration says; taken together with `config`.
        extras: The row of the dataset: ``seed``, ``max_turns``.
        config: ``env_id`` and further arguments of `AgentPool`.

    Raises:
        InvalidOptionError: An argument has a value that is not taken.
        OpenEnvGymError: There is no server, or it fails.
    """

    def __init__(
        self,
        env_config: Mapping[str, Any] | None = None,
        extras: Mapping[str, Any] | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        row = dict(extras or {})
        self.max_turns = int(row.get("max_turns") or 32)
        self._seed = row.get("seed")
        self._pool = shared_pool({**(config or {}), **(env_config or {})})
        self._session = self._pool.session()
        self._closed = False

    def init(self, prompt: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Begin the episode.

        Args:
            prompt: The row's prompt; what the environment says is added to its last message.
        """
        turn = run_blocking(self._session.begin(seed=self._seed))
        self.turns = 0
        messages = [dict(message) for message in prompt]
        if messages and messages[-1].get("role") == "user":
            messages[-1]["content"] = f"{messages[-1].get('content') or ''}{turn.text}"
        else:
            messages.append({"role": "user", "content": turn.text})
        return messages, dict(turn.metadata)

    def step(self, action: str) -> dict[str, Any]:
        """Take what the model said for its action."""
        turn = run_blocking(self._session.answer(action))
        self.turns += 1
        reward, done = turn.reward, turn.done
        if not done and self.turns >= self.max_turns:
            episode = self._session.episode
            reward += 0.0 if episode is None else episode.unfinished_reward
            done = True
        return {
            "observations": [] if done else [{"role": "user", "content": turn.text}],
            "reward": reward,
            "done": done,
            "metadata": {**turn.components, "refused": turn.refused},
        }

    def get_metrics(self) -> dict[str, Any]:
        """Return what the episode added up to, for SkyRL's log."""
        episode = self._session.episode
        if episode is None:
            return {}
        return {"turns": episode.turns, "refused": episode.refused, **episode.components}

    def close(self) -> None:
        """Let somebody else have the session."""
        if not self._closed:
            self._closed = True
            self._pool.give_back(self._session)
