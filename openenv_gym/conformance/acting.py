"""Legal actions by chance, of an environment on a server, which is asked which ones are."""

from __future__ import annotations

import copy
import zlib
from typing import Any

import gymnasium
import numpy as np

from openenv_gym.errors import OpenEnvGymError
from openenv_gym.policies import Chance


__all__ = ["LegalChance", "with_legal_steps"]


class LegalChance:
    """Draws actions of an environment: what its infos, or it itself when asked, say is legal.

    Args:
        env: The environment.
        seed: Equal seeds draw equal actions, as long as equal ones are legal.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], seed: int) -> None:
        self._session: Any = getattr(env.unwrapped, "openenv", None)
        self._space = copy.deepcopy(env.action_space)
        self._chance = Chance(self._space, 1, self._described())
        self._tells_legal = True
        self.seed(seed)

    @property
    def calls_tools(self) -> bool:
        """Whether actions are calls of tools."""
        return self._chance.calls_tools

    def seed(self, seed: int) -> None:
        """Begin anew with another seed."""
        self._chance.seed(0, seed)
        self._random = np.random.default_rng(seed)

    def act(self, info: dict[str, Any]) -> Any:
        """Return an action.

        Args:
            info: What the last reset or step told.
        """
        mask = info.get("action_mask")
        masked = mask is not None and isinstance(self._space, gymnasium.spaces.Discrete)
        if masked or self.calls_tools or not self._tells_legal:
            return self._chance.draw(0, mask)
        legal = self._legal()
        return self._chance.draw(0) if legal is None else legal

    def _described(self) -> dict[str, Any]:
        if self._session is None:
            return {}
        try:
            described: dict[str, Any] = self._session.describe_actions()
            return described
        except (OpenEnvGymError, NotImplementedError):  # a server of another kind
            return {}

    def _legal(self) -> Any:
        """Return one of the actions that are legal now; None where nobody says which are."""
        listed = self._described().get("legal")
        self._tells_legal = listed is not None
        if not listed:
            return None
        chosen = listed[int(self._random.integers(len(listed)))]
        values = [*chosen.values()] if isinstance(chosen, dict) else []
        if len(values) != 1:
            return None
        (value,) = values
        if isinstance(self._space, gymnasium.spaces.Discrete) and type(value) is int:
            value = self._space.dtype.type(value)
        return value if self._space.contains(value) else None


def with_legal_steps(env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    """Return an environment that takes every text of its space, where actions are calls of tools.

    Whoever checks an environment by drawing from its action space would otherwise be refused.
    """
    return _Called(env) if LegalChance(env, 0).calls_tools else env


class _Called(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Makes a call of each text; equal texts are equal calls."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self._chance = LegalChance(env, 0)

    def step(self, action: Any) -> Any:
        self._chance.seed(zlib.crc32(str(action).encode()))
        return self.env.step(self._chance.act({}))
