"""``env.unwrapped.openenv``: the session of an environment, and what only a remote one has.

It knows nothing of the `RemoteEnv`, which therefore is part of no reference cycle: an environment
that nobody holds any more ends its session at once.
"""

from __future__ import annotations

import functools
from collections import deque
from typing import Any, cast

import numpy as np

from openenv_gym import errors
from openenv_gym.client import Connection, Timing
from openenv_gym.env.observed import Observed
from openenv_gym.env.rng import RngMirror


__all__ = ["RemoteSession"]

_TIMINGS = 1024


class RemoteSession:
    """Operations of a session that `gymnasium.Env` has no name for.

    Attributes:
        connection: The connection to the server.
        rng: The environment's random generator.
        observed: Values that come along with replies.
        started: There was a reset.
        interrupted: What the last step did is unknown.
    """

    def __init__(self, connection: Connection) -> None:
        described = connection.environment
        self.connection = connection
        self.rng = RngMirror()
        self.observed = Observed(described.get("observables") or [])
        self.started = False
        self.interrupted = False
        self._timings: deque[Timing] = deque(maxlen=_TIMINGS)
        if described.get("rng"):
            self.rng.update(described["rng"])
        connection.on_extras = functools.partial(_take_extras, self.rng, self.observed)

    def request(self, op: str, args: list[Any]) -> Any:
        """Run an operation of docs/protocol.md, section 4.2, and return its value.

        Raises:
            OpenEnvGymError: It failed.
        """
        changes = self.rng.changes()
        try:
            return self.connection.call(op, args, {"rng": changes} if changes else None).value
        except BaseException:
            self.observed.forget()
            raise

    def reset(self, seed: int | None, options: dict[str, Any] | None) -> Any:
        """Begin an episode; see `RemoteEnv.reset`."""
        value = self.request("reset", [seed, options])
        self.started, self.interrupted = True, False
        return value

    def step(self, action: Any) -> Any:
        """Take a step; see `RemoteEnv.step`."""
        if self.interrupted:
            raise errors.ResetNeededError(
                "The last step was interrupted, and what it did is unknown.",
                hint="Call reset() first.",
            )
        try:
            value = self.request("step", [action])
        except (KeyboardInterrupt, errors.DeadlineExceededError):
            self.interrupted = True
            raise
        self._timings.append(self.connection.last_timing)
        return value

    @property
    def time_limit(self) -> int | None:
        """Steps after which the environment's own spec truncates an episode; None if never."""
        return cast("int | None", self.connection.environment.get("time_limit"))

    def state(self) -> dict[str, Any]:
        """Return what the environment tells about itself (OpenEnv's ``state()``)."""
        return cast("dict[str, Any]", self.request("state", []))

    def describe_actions(self) -> dict[str, Any]:
        """Return what an agent is told about the actions (docs/discovery.md).

        Returns:
            Plain JSON data. ``actions``: of each kind ``name``, ``description``, ``schema`` (JSON
            Schema) and ``fields`` (type, bounds, labels ... of each); ``tools``: of each ``name``,
            ``description`` and ``input_schema``; ``legal``: the actions that are legal now, by
            field, or None where all of the space are, as far as anybody says.
        """
        return cast("dict[str, Any]", self.request("describe_actions", []))

    def save_state(self) -> Any:
        """Return plain data from which `restore_state` makes the present state again.

        Raises:
            NotImplementedError: The environment cannot do that.
        """
        return self.request("save_state", [])

    def restore_state(self, saved: Any) -> None:
        """Return to a state that `save_state` returned.

        Raises:
            NotImplementedError: The environment cannot do that.
        """
        self.request("restore_state", [saved])
        self.started, self.interrupted = True, False

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

    def observe(self, path: str, ask: Any) -> Any:
        """Return the present value at an observable path, asking only where it did not come along.

        Args:
            path: One of `observed.paths`.
            ask: Asks the server for the value.
        """
        observed = self.observed
        if path in observed.values:
            value = observed.use(path)
            return value.copy() if isinstance(value, np.ndarray) else value
        wanted = observed.with_path(path)
        if wanted is not None:
            self.request("observe", [wanted])
            observed.agree(wanted)
        return ask()

    def __repr__(self) -> str:
        return f"<session {self.connection.session_name} at {self.connection.address}>"


def _take_extras(rng: RngMirror, observed: Observed, extras: dict[str, Any]) -> None:
    """Take what came along with a reply."""
    if "rng" in extras:
        rng.update(extras["rng"])
    if "observed" in extras:
        observed.update(extras["observed"])
