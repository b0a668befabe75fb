"""The sub-environments of one session: operations in, plain values out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MethodType
from typing import Any

import gymnasium
import numpy as np

from openenv_gym import errors
from openenv_gym.protocol.codec import encode_packet
from openenv_gym.protocol.generators import generator_state
from openenv_gym.server.host import describe_env
from openenv_gym.server.operations import find_operation, run_operation
from openenv_gym.server.vector.engine import Engine, Mask, Seeds, SubEnvironments
from openenv_gym.server.vector.infos import with_short_masks
from openenv_gym.server.vector.options import VectorOptions
from openenv_gym.spaces import space_to_data


__all__ = ["VectorHost"]

_REFUSED = frozenset({"reset", "step", "close", "_setattr", "_check_spaces"})


class VectorHost:
    """Runs the operations of docs/protocol.md, section 4.5.

    Args:
        engine: What moves the sub-environments.
        options: What the client asked for.
        single: A single one of them, as it is described to the client.
        name: Name of its class.
        observation_spaces: Those of all sub-environments, where they may differ.
        schemas: JSON Schemas of action, observation and state.
        time_limit: Steps after which the environment's own spec has an episode truncated.
        max_episode_steps: Steps after which this session has.
    """

    def __init__(
        self,
        engine: Engine,
        options: VectorOptions,
        *,
        single: Any,
        name: str,
        observation_spaces: Sequence[gymnasium.Space[Any]] = (),
        schemas: dict[str, Any] | None = None,
        time_limit: int | None = None,
        max_episode_steps: int | None = None,
    ) -> None:
        self.engine = engine
        self._options = options
        self._single = single
        self._name = name
        self._observation_spaces = observation_spaces
        self._schemas = schemas or {"action": {}, "observation": {}, "state": {}}
        self._time_limit = time_limit
        self._max_episode_steps = max_episode_steps
        self._count = options.num_envs

    @property
    def engine_count(self) -> int:
        """How many sub-environments there are."""
        return self._count

    @property
    def single(self) -> Any:
        """A single one of them, as it is described to the client."""
        return self._single

    @property
    def name(self) -> str:
        """Name of their class."""
        return self._name

    def render_member(self, index: int) -> Any:
        """Draw one of them; None where the engine draws only all of them at once."""
        return (
            self.engine.envs[index].render() if isinstance(self.engine, SubEnvironments) else None
        )

    def describe(self) -> dict[str, Any]:
        """Return the part of the map ``environment`` of WELCOME that the environment decides.

        Raises:
            SpaceError: A space cannot be carried.
        """
        options = self._options
        vector: dict[str, Any] = {
            "num_envs": options.num_envs,
            "autoreset_mode": options.autoreset_mode.value,
            "engine": self.engine.name,
            "max_episode_steps": self._max_episode_steps,
        }
        if options.different_spaces:
            vector["observation_spaces"] = [
                space_to_data(space) for space in self._observation_spaces
            ]
        return {
            **describe_env(self._single, self._name),
            "observables": [],
            "rng": None,
            "time_limit": self._time_limit,
            "vector": vector,
        }

    def schemas(self) -> dict[str, Any]:
        """Return JSON Schemas of action, observation and state."""
        return self._schemas

    def execute(self, op: str, args: list[Any], rng: Any = None) -> tuple[Any, int]:
        """Run one operation.

        Args:
            op: Name of the operation.
            args: Its arguments, as the protocol has them.
            rng: Ignored: sub-environments have a generator each.

        Returns:
            The value, and the nanoseconds that it took.

        Raises:
            ProtocolError: No such operation, or arguments of the wrong form.
            InvalidActionError: An action is not in the action space.
            ResetNeededError: A sub-environment must be reset before.
            EnvironmentFailedError: A sub-environment raised; ``data["index"]`` says which.
        """
        operation = find_operation(_OPERATIONS, op)
        return run_operation(MethodType(operation, self), op, args)

    def extras(self, op: str) -> dict[str, Any]:
        """Return nothing: neither generators nor attributes are mirrored."""
        return {}

    def close(self) -> None:
        """Close all sub-environments."""
        self.engine.close()

    # -- operations ---------------------------------------------------------------------------

    def _step(self, actions: Any) -> list[Any]:
        if self.engine.pending:
            raise self._busy("step")
        return self._slim(self.engine.step(actions))

    def _reset(self, seeds: Any = None, options: Any = None, mask: Any = None) -> list[Any]:
        if self.engine.pending:
            raise self._busy("reset")
        if options is not None and type(options) is not dict:
            raise errors.ProtocolError(f"Expected a map, got {options!r:.40}.", field="options")
        return self._slim(
            self.engine.reset(self._read_seeds(seeds), options, self._read_mask(mask))
        )

    def _slim(self, results: list[Any]) -> list[Any]:
        """Shorten the infos, which come last."""
        if results[-1]:
            results[-1] = with_short_masks(results[-1], self._count)
        return results

    def _send(self, indices: Any, actions: Any) -> None:
        self.engine.send(self._read_indices(indices), actions)

    def _recv(self, min_envs: Any, timeout_s: Any = None) -> list[Any]:
        if type(min_envs) is not int or min_envs < 0:
            raise errors.ProtocolError(
                f"Expected min_envs from 0, got {min_envs!r:.40}.", field="min_envs"
            )
        # Negated, so that NaN counts as wrong.
        if timeout_s is not None and not (type(timeout_s) in (int, float) and timeout_s >= 0):
            raise errors.ProtocolError(
                f"Expected timeout_s from 0 or nil, got {timeout_s!r:.40}.", field="timeout_s"
            )
        return self.engine.recv(min_envs, timeout_s)

    def _render(self) -> list[Any]:
        if self.engine.pending:
            raise self._busy("render")
        return self.engine.render()

    def _call(self, name: Any, args: Any = (), kwargs: Any = None) -> list[Any]:
        if self.engine.pending:
            raise self._busy("call")
        if type(name) is not str:
            raise errors.ProtocolError(f"Expected a name, got {name!r:.40}.", field="name")
        if not isinstance(args, (list, tuple)) or not isinstance(kwargs, (dict, type(None))):
            raise errors.ProtocolError("Expected [name, array, map].", field="args")
        # Names with two underscores lead from any object to the whole interpreter.
        if name in _REFUSED or name.startswith("__"):
            raise ValueError(
                f"Trying to call function `{name}` with `call`, use `{name}` directly instead."
            )
        found = self.engine.call(name, list(args), kwargs or {})
        if name == "np_random":
            seeds = self.engine.call("np_random_seed", [], {})
            found = [
                {"seed": seed, "state": generator_state(generator)}
                for seed, generator in zip(seeds, found, strict=True)
            ]
        self._check_sendable(name, found)
        return found

    def _set(self, name: Any, values: Any) -> None:
        if self.engine.pending:
            raise self._busy("set")
        if type(name) is not str or name.startswith("__"):
            raise errors.ProtocolError(f"Expected a name, got {name!r:.40}.", field="name")
        if not isinstance(values, (list, tuple)) or len(values) != self._count:
            raise errors.ProtocolError(
                f"Expected an array of {self._count} values, got {values!r:.40}.", field="values"
            )
        self.engine.set(name, values)

    def _save_states(self) -> list[Any]:
        if self.engine.pending:
            raise self._busy("save_states")
        return self.engine.save()

    def _restore_states(self, states: Any) -> None:
        if self.engine.pending:
            raise self._busy("restore_states")
        if not isinstance(states, (list, tuple)) or len(states) != self._count:
            raise errors.ProtocolError(
                f"Expected an array of {self._count} states, got {states!r:.40}.", field="states"
            )
        self.engine.restore(states)

    def _ping(self) -> None:
        """Do nothing."""

    # -- arguments ----------------------------------------------------------------------------

    def _read_seeds(self, seeds: Any) -> Seeds:
        if seeds is None:
            return None
        if not isinstance(seeds, (list, tuple)) or len(seeds) != self._count:
            raise errors.ProtocolError(
                f"Expected nil or an array of {self._count} seeds, got {seeds!r:.40}.",
                field="seeds",
            )
        for seed in seeds:
            if seed is not None and type(seed) is not int:
                raise errors.ProtocolError(
                    f"Expected seeds that are integers or nil, got {seed!r:.40}.", field="seeds"
                )
        return seeds

    def _read_mask(self, mask: Any) -> Mask:
        if mask is None:
            return None
        if (
            not isinstance(mask, np.ndarray)
            or mask.dtype != np.bool_
            or mask.shape != (self._count,)
        ):
            raise errors.ProtocolError(
                f"Expected a bool array of shape ({self._count},), got {mask!r:.60}.", field="mask"
            )
        return mask

    def _read_indices(self, indices: Any) -> list[int]:
        if not isinstance(indices, np.ndarray) or indices.dtype.kind not in "iu":
            raise errors.ProtocolError(
                f"Expected an array of integers, got {indices!r:.60}.", field="indices"
            )
        found: list[int] = indices.tolist() if indices.ndim == 1 else []
        if not found:
            raise errors.ProtocolError(
                f"Expected one dimension and at least one index, got shape {indices.shape}.",
                field="indices",
            )
        seen: set[int] = set()
        for index in found:
            if not 0 <= index < self._count or index in seen:
                what = "occurs twice" if index in seen else f"is not in 0..{self._count - 1}"
                raise errors.ProtocolError(f"The index {index} {what}.", field="indices")
            seen.add(index)
        return found

    def _busy(self, op: str) -> errors.ProtocolError:
        return errors.ProtocolError(
            f"Cannot {op} while {self.engine.pending} sub-environments were sent and not received.",
            field="op",
            hint="Call recv() until all are back.",
            data={"pending": self.engine.pending},
        )

    def _check_sendable(self, name: str, values: list[Any]) -> None:
        """Refuse values that cannot travel.

        Raises:
            EnvironmentFailedError: One cannot; of type ``TypeError``, with its index.
        """
        try:
            encode_packet([values])
        except errors.EncodeError:
            pass
        else:
            return
        numbers: list[int] = []
        why = ""
        for index, value in enumerate(values):
            try:
                encode_packet([value])
            except errors.EncodeError as error:
                numbers.append(index + self._options.first)
                why = f"{type(value).__name__}: {error.message}"
        raise errors.EnvironmentFailedError(
            f"`{name}` of sub-environment {numbers[-1]} cannot be sent: {why}",
            data={"type": "TypeError", "index": numbers[-1], "indices": numbers},
        )


# Not bound to a host, which would hold itself then, see `EnvironmentHost`.
_OPERATIONS: dict[str, Callable[..., Any]] = {
    "step": VectorHost._step,
    "reset": VectorHost._reset,
    "send": VectorHost._send,
    "recv": VectorHost._recv,
    "render": VectorHost._render,
    "call": VectorHost._call,
    "set": VectorHost._set,
    "save_states": VectorHost._save_states,
    "restore_states": VectorHost._restore_states,
    "ping": VectorHost._ping,
}
