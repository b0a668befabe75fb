"""`RemoteEnv`: an ordinary `gymnasium.Env` whose world is on a server."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable
from typing import Any, SupportsFloat, cast

import gymnasium
import numpy as np

from openenv_gym import errors
from openenv_gym.client import Connection
from openenv_gym.env.remote_object import RemoteMethod, read_attribute
from openenv_gym.env.session import RemoteSession
from openenv_gym.env.viewer import Viewer
from openenv_gym.spaces import space_from_data


__all__ = ["RemoteEnv"]

# Attributes that `gymnasium.Env` has as a matter of fact; the others it has are on the class.
_LOCAL = frozenset({"action_space", "observation_space", "metadata", "render_mode", "spec"})


class RemoteEnv(gymnasium.Env[Any, Any]):
    """One environment in one session.

    Observations, rewards, infos and the state of `np_random` are those of the environment, to the
    bit. Attributes that `gymnasium.Env` itself does not have (``env.unwrapped.gravity``) are read,
    set and called on the server; `openenv` and `timing` are the only ones that this class adds.

    Args:
        connection: The session.
        human: Show the environment's RGB frames in a window here (``render_mode="human"``).
        release: Called once when the environment is closed, dropped, or the program ends.
        recipe: Makes another environment like this one, for pickling and copying.
    """

    # What is kept here; any other attribute is the environment's.
    _openenv_finalizer: Callable[[], Any]
    _openenv_methods: dict[str, RemoteMethod]
    _openenv_recipe: Callable[[], RemoteEnv] | None
    _openenv_session: RemoteSession
    _openenv_viewer: Viewer | None

    def __init__(
        self,
        connection: Connection,
        *,
        human: bool = False,
        release: Callable[[], None] = lambda: None,
        recipe: Callable[[], RemoteEnv] | None = None,
    ) -> None:
        described = connection.environment
        metadata = dict(described.get("metadata") or {})
        viewer = (
            Viewer(described.get("name", "openenv"), metadata.get("render_fps")) if human else None
        )
        self._openenv_recipe = recipe
        self._openenv_methods = {}
        self._openenv_session = RemoteSession(connection)
        self._openenv_viewer = viewer
        self.metadata = metadata
        self.render_mode = "human" if human else described.get("render_mode")
        self.action_space = space_from_data(described["action_space"])
        self.observation_space = space_from_data(described["observation_space"])
        self.spec = None
        # Last: before, whoever made the connection ends it.
        self._openenv_finalizer = weakref.finalize(self, _end, connection, release)

    # -- gymnasium.Env ------------------------------------------------------------------------

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin a new episode.

        Args:
            seed: Seeds the environment's generator, on the server.
            options: Options of the episode, by environment.

        Returns:
            The first observation and the info.

        Raises:
            EnvironmentFailedError: The environment raised an exception (which this is, too).
            ConnectionLostError: The server is gone.
            DeadlineExceededError: No answer came in time.
            SessionClosedError: The environment is closed.
        """
        observation, info = self._openenv_session.reset(seed, options)
        if self._openenv_viewer is not None:
            self._openenv_show()
        return observation, info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Take one step.

        Args:
            action: A sample of `action_space`.

        Returns:
            Observation, reward, terminated, truncated and info.

        Raises:
            InvalidActionError: The action is not in the action space.
            ResetNeededError: There was no reset yet, or the last step was interrupted.
            EnvironmentFailedError: The environment raised an exception (which this is, too).
            ConnectionLostError: The server is gone.
            DeadlineExceededError: No answer came in time.
            SessionClosedError: The environment is closed.
        """
        try:
            observation, reward, terminated, truncated, info = self._openenv_session.step(action)
        except errors.EncodeError as error:
            raise errors.InvalidActionError(
                f"Expected an action in {self.action_space}, got a {type(action).__name__}: "
                f"{error.message}",
                field=error.field,
            ) from error
        if self._openenv_viewer is not None:
            self._openenv_show()
        return observation, reward, terminated, truncated, info

    def render(self) -> Any:
        """Return the environment's frame; None for ``render_mode="human"``, which shows it."""
        if self.render_mode is None and self.spec is not None:
            # What `gymnasium.Env.render` says for an environment made without a mode.
            gymnasium.logger.warn(
                "You are calling render method without specifying any render mode. You can specify "
                f'the render_mode at initialization, e.g. gym.make("{self.spec.id}", '
                'render_mode="rgb_array")'
            )
            return None
        if self._openenv_viewer is not None:
            self._openenv_show()
            return None
        return self._openenv_session.request("render", [])

    def close(self) -> None:
        """End the session, and the server where it is this environment's own. Safe to repeat."""
        if self._openenv_viewer is not None:
            self._openenv_viewer.close()
        self._openenv_finalizer()

    @property
    def np_random(self) -> np.random.Generator:
        """The environment's generator; draws made here count for it, too."""
        return self._openenv_session.rng.get()

    @np_random.setter
    def np_random(self, value: np.random.Generator) -> None:
        self._openenv_session.rng.generator = value
        self._openenv_session.rng.seed = -1

    @property
    def np_random_seed(self) -> int:
        """Seed of the generator; -1 where unknown."""
        self._openenv_session.rng.get()
        return cast(int, self._openenv_session.rng.seed)

    # Gymnasium's checkers and wrappers read and set the private names, too.

    @property
    def _np_random(self) -> np.random.Generator | None:
        return self._openenv_session.rng.generator

    @_np_random.setter
    def _np_random(self, value: np.random.Generator | None) -> None:
        self._openenv_session.rng.generator = value

    @property
    def _np_random_seed(self) -> int | None:
        return self._openenv_session.rng.seed

    @_np_random_seed.setter
    def _np_random_seed(self, value: int | None) -> None:
        self._openenv_session.rng.seed = value

    # -- what a local environment does not have -----------------------------------------------

    @property
    def openenv(self) -> RemoteSession:
        """The session: ``state()``, ``save_state()``, ``connection`` and the like."""
        return self._openenv_session

    @property
    def timing(self) -> Callable[[], dict[str, float]]:
        """``timing()``: where the time of the last steps went; see `RemoteSession.timing`."""
        return self._openenv_session.timing

    # -- the rest of the environment's attributes ---------------------------------------------

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("__", "_openenv_")):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        found = self._openenv_methods.get(name)
        if found is None:
            found = read_attribute(name, self._openenv_session)
            if isinstance(found, RemoteMethod):
                self._openenv_methods[name] = found
        return found

    def __setattr__(self, name: str, value: Any) -> None:
        if (
            name in _LOCAL
            or name.startswith(("__", "_openenv_"))
            or hasattr(type(self), name)
            or (name.startswith("_") and not self._openenv_has(name))
        ):
            super().__setattr__(name, value)
            return
        try:
            self._openenv_session.request("set", [name, value])
        except errors.EncodeError:
            if self._openenv_has(name):
                raise
            super().__setattr__(name, value)  # an object of the client's, for the client
        else:
            self._openenv_methods.pop(name, None)
            vars(self).pop(name, None)

    def _openenv_has(self, name: str) -> bool:
        """Tell whether the environment has an attribute."""
        if name in vars(self):
            return False  # it would not be here
        try:
            getattr(self, name)
        except AttributeError:
            return False
        return True

    # -- copies -------------------------------------------------------------------------------

    def __reduce__(self) -> tuple[Any, ...]:
        if self._openenv_recipe is None:
            raise TypeError("This RemoteEnv was made from a connection and cannot be pickled.")
        return self._openenv_recipe, ()

    def __deepcopy__(self, memo: dict[int, Any]) -> RemoteEnv:
        make, _ = self.__reduce__()
        session = self._openenv_session
        try:
            saved = session.save_state() if session.started else None
        except NotImplementedError as error:
            raise TypeError(
                f"Cannot copy an episode that has begun: {error} Copy before the first reset(), "
                "or make another environment and reset() it with the same seed."
            ) from error
        made = cast(RemoteEnv, make())
        try:
            if session.started:
                made.openenv.restore_state(saved)
            made.action_space = copy.deepcopy(self.action_space, memo)
            made.spec = self.spec
        except BaseException:
            made.close()
            raise
        return made

    def _openenv_show(self) -> None:
        frame = self._openenv_session.request("render", [])
        if self._openenv_viewer is not None and isinstance(frame, np.ndarray) and frame.ndim == 3:
            self._openenv_viewer.show(frame)


def _end(connection: Connection, release: Callable[[], None]) -> None:
    try:
        connection.close()
    finally:
        release()
