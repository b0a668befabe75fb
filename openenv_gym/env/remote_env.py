"""`RemoteEnv`: an ordinary `gymnasium.Env` whose world is on a server."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, SupportsFloat, cast

import gymnasium
import numpy as np

from openenv_gym import errors
from openenv_gym.client import Connection, Timing
from openenv_gym.env.remote_object import Observed, RemoteMethod, read_attribute
from openenv_gym.env.rng import RngMirror
from openenv_gym.env.viewer import Viewer
from openenv_gym.protocol.messages import Result
from openenv_gym.spaces import space_from_data


__all__ = ["RemoteEnv"]


class RemoteEnv(gymnasium.Env[Any, Any]):
    """One environment in one session.

    Observations, rewards, infos and the state of `np_random` are those of the environment, to the
    bit. Attributes that are not the client's own (``env.unwrapped.gravity``) are read, set and
    called on the server.

    Args:
        connection: The session.
        human: Show the environment's RGB frames in a window here (``render_mode="human"``).
        release: Called once when the environment is closed, dropped, or the program ends.
        recipe: Makes another environment like this one, for pickling and copying.
    """

    # What is kept here; any other attribute is the environment's.
    _connection: Connection
    _finalizer: Callable[[], Any]
    _interrupted: bool
    _methods: dict[str, Any]
    _observed: Observed
    _recipe: Callable[[], RemoteEnv] | None
    _rng: RngMirror
    _timings: deque[Timing]
    _viewer: Viewer | None

    def __init__(
        self,
        connection: Connection,
        *,
        human: bool = False,
        release: Callable[[], None] = lambda: None,
        recipe: Callable[[], RemoteEnv] | None = None,
    ) -> None:
        described = connection.environment
        set_local = vars(self).update
        set_local(_connection=connection, _recipe=recipe, _methods={})
        set_local(_finalizer=weakref.finalize(self, _end, connection, release))
        set_local(_rng=RngMirror(), _interrupted=False, _timings=deque(maxlen=1024))
        set_local(_observed=Observed(described.get("observables") or [], self._request))
        metadata = dict(described.get("metadata") or {})
        set_local(
            metadata=metadata,
            render_mode="human" if human else described.get("render_mode"),
            action_space=space_from_data(described["action_space"]),
            observation_space=space_from_data(described["observation_space"]),
            spec=None,
            _viewer=Viewer(described.get("name", "openenv"), metadata.get("render_fps"))
            if human
            else None,
        )
        if described.get("rng"):
            self._rng.update(described["rng"])

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
        observation, info = self._request("reset", [seed, options]).value
        vars(self)["_interrupted"] = False
        if self._viewer is not None:
            self._show()
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
        if self._interrupted:
            raise errors.ResetNeededError(
                "The last step was interrupted, and what it did is unknown.",
                hint="Call reset() first.",
            )
        try:
            result = self._request("step", [action])
        except errors.EncodeError as error:
            raise errors.InvalidActionError(
                f"Expected an action in {self.action_space}, got a {type(action).__name__}: "
                f"{error.message}",
                field=error.field,
            ) from error
        except (KeyboardInterrupt, errors.DeadlineExceededError):
            vars(self)["_interrupted"] = True
            raise
        self._timings.append(self._connection.last_timing)
        if self._viewer is not None:
            self._show()
        observation, reward, terminated, truncated, info = result.value
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
        if self._viewer is not None:
            self._show()
            return None
        return self._request("render", []).value

    def close(self) -> None:
        """End the session, and the server where it is this environment's own. Safe to repeat."""
        if self._viewer is not None:
            self._viewer.close()
        self._finalizer()

    @property
    def np_random(self) -> np.random.Generator:
        """The environment's generator; draws made here count for it, too."""
        return self._rng.get()

    @np_random.setter
    def np_random(self, value: np.random.Generator) -> None:
        self._rng.replace(value)

    @property
    def np_random_seed(self) -> int:
        """Seed of the generator; -1 where unknown."""
        self._rng.get()
        return cast(int, self._rng.seed)

    # Gymnasium's checkers and wrappers read and set the private names, too.

    @property
    def _np_random(self) -> np.random.Generator | None:
        return self._rng.generator

    @_np_random.setter
    def _np_random(self, value: np.random.Generator | None) -> None:
        self._rng.replace(value)

    @property
    def _np_random_seed(self) -> int | None:
        return self._rng.seed

    @_np_random_seed.setter
    def _np_random_seed(self, value: int | None) -> None:
        self._rng.seed = value

    # -- what a local environment does not have -----------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return what the environment tells about itself (OpenEnv's ``state()``)."""
        return cast(dict[str, Any], self._request("state", []).value)

    def save_state(self) -> Any:
        """Return plain data from which `restore_state` makes the present state again.

        Raises:
            NotImplementedError: The environment cannot do that.
        """
        return self._request("save_state", []).value

    def restore_state(self, saved: Any) -> None:
        """Return to a state that `save_state` returned.

        Raises:
            NotImplementedError: The environment cannot do that.
        """
        self._request("restore_state", [saved])

    def timing(self) -> dict[str, float]:
        """Return where the time of the last steps (at most 1,024) went, in seconds a step.

        Returns:
            ``encode_s``, ``wire_s`` (both ways, with waking up), ``queue_s`` (in the server),
            ``environment_s``, ``decode_s``, and ``steps``: how many were averaged.
        """
        steps = len(self._timings)
        columns = zip(*self._timings, strict=True) if steps else [[0]] * len(Timing._fields)
        means = {
            f"{name}_s": sum(column) / max(steps, 1) / 1e9
            for name, column in zip(Timing._fields, columns, strict=True)
        }
        return {**means, "steps": steps}

    @property
    def connection(self) -> Connection:
        """The session of this environment."""
        return self._connection

    # -- the rest of the environment's attributes ---------------------------------------------

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "_observed" not in vars(self):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        method = self._methods.get(name)
        if method is None:
            method = read_attribute(name, self._request, self._observed)
            if isinstance(method, RemoteMethod):
                self._methods[name] = method
        return method

    def __setattr__(self, name: str, value: Any) -> None:
        if name in vars(self) or hasattr(type(self), name) or not self._has_remote(name):
            super().__setattr__(name, value)
        else:
            self._request("set", [name, value])

    def __reduce__(self) -> tuple[Any, ...]:
        if self._recipe is None:
            raise TypeError("This RemoteEnv was made from a connection and cannot be pickled.")
        return self._recipe, ()

    def _has_remote(self, name: str) -> bool:
        try:
            getattr(self, name)
        except AttributeError:
            return False
        return True

    # -- requests -----------------------------------------------------------------------------

    def _request(self, op: str, args: list[Any]) -> Result:
        changes = self._rng.changes()
        result = self._connection.call(op, args, {"rng": changes} if changes else None)
        extras = result.extras
        if extras:
            if "rng" in extras:
                self._rng.update(extras["rng"])
            if "observed" in extras:
                self._observed.update(extras["observed"])
        return result

    def _show(self) -> None:
        frame = self._request("render", []).value
        if self._viewer is not None and isinstance(frame, np.ndarray) and frame.ndim == 3:
            self._viewer.show(frame)


def _end(connection: Connection, release: Callable[[], None]) -> None:
    try:
        connection.close()
    finally:
        release()
