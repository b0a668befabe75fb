"""What `RemoteAECEnv` and `RemoteParallelEnv` have in common."""

from __future__ import annotations

import functools
import warnings
import weakref
from collections.abc import Callable, Hashable
from typing import Any

import gymnasium
import numpy as np

from openenv_gym import errors
from openenv_gym.client import Connection
from openenv_gym.env import RemoteSession
from openenv_gym.env.remote_object import read_attribute
from openenv_gym.env.viewer import Viewer
from openenv_gym.multi_agent.welcome import AgentSpaces, check_session
from openenv_gym.spaces import space_from_data


__all__ = ["RemoteAgents"]


class RemoteAgents:
    """Spaces, pictures, attributes and copies of an environment with several agents.

    Attributes that PettingZoo's classes do not have are read, set and called on the server, on the
    innermost environment; `openenv` alone is added.

    Args:
        connection: The session.
        human: Show RGB frames in a window here (``render_mode="human"``).
        release: Called once when the environment is closed, dropped, or the program ends.
        recipe: Makes another environment like this one, for pickling and copying.
    """

    api: str
    _after_reset: frozenset[str] = frozenset({"agents"})

    # What is kept here; any other attribute is the environment's.
    metadata: dict[str, Any]
    render_mode: str | None
    possible_agents: list[Any]
    state_space: gymnasium.Space[Any]
    _openenv_finalizer: Callable[[], Any]
    _openenv_name: str
    _openenv_recipe: Callable[[], Any] | None
    _openenv_session: RemoteSession
    _openenv_spaces: AgentSpaces
    _openenv_viewer: Viewer | None

    def __init__(
        self,
        connection: Connection,
        *,
        human: bool = False,
        release: Callable[[], None] = lambda: None,
        recipe: Callable[[], Any] | None = None,
    ) -> None:
        described = connection.environment
        many = check_session(connection, self.api)
        keep = functools.partial(object.__setattr__, self)
        keep("_openenv_name", str(described.get("name", "openenv")))
        keep("_openenv_recipe", recipe)
        keep("_openenv_spaces", AgentSpaces(many["spaces"]))
        keep("metadata", dict(described.get("metadata") or {}))
        keep("render_mode", "human" if human else described.get("render_mode"))
        fps = self.metadata.get("render_fps")
        keep("_openenv_viewer", Viewer(self._openenv_name, fps) if human else None)
        keep("_openenv_session", RemoteSession(connection))
        if many["possible_agents"] is not None:
            keep("possible_agents", list(many["possible_agents"]))
        if many.get("state_space") is not None:
            keep("state_space", space_from_data(many["state_space"]))
        connection.on_extras = functools.partial(_take_extras, self._openenv_spaces)
        keep("_openenv_finalizer", weakref.finalize(self, _end, connection, release))

    # -- spaces -------------------------------------------------------------------------------

    def observation_space(self, agent: Hashable) -> gymnasium.Space[Any]:
        """Return the observation space of an agent: always the same object."""
        return self._openenv_spaces.observation[agent]

    def action_space(self, agent: Hashable) -> gymnasium.Space[Any]:
        """Return the action space of an agent: always the same object."""
        return self._openenv_spaces.action[agent]

    @property
    def observation_spaces(self) -> dict[Any, gymnasium.Space[Any]]:
        """Observation spaces of all agents that are known."""
        return dict(self._openenv_spaces.observation)

    @property
    def action_spaces(self) -> dict[Any, gymnasium.Space[Any]]:
        """Action spaces of all agents that are known."""
        return dict(self._openenv_spaces.action)

    # -- the rest of both interfaces ----------------------------------------------------------

    def state(self) -> np.ndarray[Any, Any]:
        """Return the global state.

        Raises:
            NotImplementedError: The environment has none.
            ResetNeededError: There was no reset yet.
        """
        found: np.ndarray[Any, Any] = self._openenv_session.request("state", [])
        return found

    def render(self) -> Any:
        """Return a picture in the form of the render mode; None for ``"human"``, which shows it."""
        if self.render_mode is None:
            warnings.warn(
                "You are calling render() of an environment made without a render_mode.",
                stacklevel=2,
            )
            return None
        frame = self._openenv_session.request("render", [])
        if self._openenv_viewer is None:
            return frame
        if isinstance(frame, np.ndarray) and frame.ndim == 3:
            self._openenv_viewer.show(frame)
        return None

    def close(self) -> None:
        """End the session, and the server where it is this environment's own. Safe to repeat."""
        if self._openenv_viewer is not None:
            self._openenv_viewer.close()
        self._openenv_finalizer()

    @property
    def openenv(self) -> RemoteSession:
        """The session: ``timing()``, ``connection`` and the like."""
        return self._openenv_session

    def __str__(self) -> str:
        return self._openenv_name

    # -- the rest of the environment's attributes ---------------------------------------------

    def __getattr__(self, name: str) -> Any:
        if name in self._after_reset or name in ("possible_agents", "state_space"):
            raise AttributeError(
                f"{type(self).__name__} has no {name}"
                + (" before reset()" if name in self._after_reset else "")
            )
        if name.startswith(("__", "_openenv_")):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return read_attribute(name, self._openenv_session)

    def __setattr__(self, name: str, value: Any) -> None:
        local = name in vars(self) or name in self._after_reset or hasattr(type(self), name)
        if local or name.startswith("_"):
            object.__setattr__(self, name, value)
            return
        try:
            self._openenv_session.request("set", [name, value])
        except errors.EncodeError:  # an object of the client's, for the client
            object.__setattr__(self, name, value)

    # -- copies -------------------------------------------------------------------------------

    def __reduce__(self) -> tuple[Any, ...]:
        if self._openenv_recipe is None:
            raise TypeError(
                f"This {type(self).__name__} was made from a connection and cannot be pickled."
            )
        return self._openenv_recipe, ()

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if self._openenv_session.started:
            raise TypeError(
                "Cannot copy an episode that has begun. Copy before the first reset(), or make "
                "another environment and reset() it with the same seed."
            )
        make, _ = self.__reduce__()
        return make()

    def _openenv_show(self) -> None:
        """Show the present state, where there is a window for it."""
        if self._openenv_viewer is not None:
            self.render()


def _take_extras(spaces: AgentSpaces, extras: dict[str, Any]) -> None:
    """Take the spaces of agents that are new."""
    if "spaces" in extras:
        spaces.update(extras["spaces"])


def _end(connection: Connection, release: Callable[[], None]) -> None:
    try:
        connection.close()
    finally:
        release()
