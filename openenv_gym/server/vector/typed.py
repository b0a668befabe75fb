"""A typed environment as a sub-environment: attributes by Gymnasium's names for wrappers."""

from __future__ import annotations

from typing import Any

import gymnasium

from openenv_gym.server.adapter import TypedEnv


__all__ = ["TypedSubEnvironment"]

_OWN = frozenset({"action_space", "observation_space", "metadata", "render_mode", "spec"})


class TypedSubEnvironment(TypedEnv):
    """Resolves attributes as a session with a single environment does.

    What `gymnasium.Env` itself has is this object's; anything else is the environment's
    (`Environment.remote_target`).
    """

    def has_wrapper_attr(self, name: str) -> bool:
        """Tell whether there is an attribute of this name."""
        return hasattr(self._holder(name), name)

    def get_wrapper_attr(self, name: str) -> Any:
        """Return an attribute."""
        return getattr(self._holder(name), name)

    def set_wrapper_attr(self, name: str, value: Any, *, force: bool = True) -> bool:
        """Set an attribute; without `force` only one that is there."""
        holder = self._holder(name)
        if force or hasattr(holder, name):
            setattr(holder, name, value)
            return True
        return False

    def _holder(self, name: str) -> Any:
        own = name in _OWN or hasattr(gymnasium.Env, name)
        return self if own else self.remote_target
