"""One environment of one session: operations in, plain values out. Knows nothing of the wire."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from openenv_gym import errors
from openenv_gym.models import State
from openenv_gym.server import attributes
from openenv_gym.server.adapter import TypedEnv
from openenv_gym.server.environment import AnyEnvironment, Environment
from openenv_gym.spaces import space_to_data
from openenv_gym.spaces.actions import check_hosted_action


__all__ = ["EnvironmentHost", "Outcome"]

Outcome = tuple[Any, int, dict[str, Any]]
"""Value of an operation, nanoseconds that the environment took, extras."""


class EnvironmentHost:
    """Runs the operations of docs/protocol.md, section 4.2, on an environment.

    Args:
        environment: What a session was opened for.
        observables: Paths that `observe` takes, beside those that the environment names itself.
    """

    def __init__(self, environment: AnyEnvironment, observables: tuple[str, ...] = ()) -> None:
        self.env: gymnasium.Env[Any, Any]
        if isinstance(environment, Environment):
            self.env = TypedEnv(environment)
            self._target = environment.remote_target
            observables = (*environment.observables, *observables)
        else:
            self.env = environment
            self._target = environment.unwrapped
        self.observables = observables
        self._base = self.env.unwrapped
        self._typed = isinstance(self.env, TypedEnv)
        self._started = False
        self._steps = 0
        self._episode = 0
        self._observed: list[str] = []
        self._rng_known: Any = None
        self._operations: dict[str, Callable[..., Any]] = {
            "reset": self._reset,
            "step": self._step,
            "render": self._render,
            "state": self._state,
            "get": self._get,
            "set": self._set,
            "call": self._call,
            "observe": self._observe,
            "ping": lambda: None,
            "save_state": self._save_state,
            "restore_state": self._restore_state,
        }

    # -- description --------------------------------------------------------------------------

    def describe(self) -> dict[str, Any]:
        """Return the part of the map ``environment`` of WELCOME that this environment decides.

        Raises:
            SpaceError: A space cannot be carried.
        """
        env = self.env
        metadata = {
            key: getattr(value, "value", value) for key, value in dict(env.metadata or {}).items()
        }
        return {
            "name": type(self._target).__name__,
            "action_space": space_to_data(env.action_space),
            "observation_space": space_to_data(env.observation_space),
            "metadata": metadata,
            "render_mode": env.render_mode,
            "observables": list(self.observables),
            "rng": self._rng_changed(),
        }

    def schemas(self) -> dict[str, Any]:
        """Return JSON Schemas of action, observation and state."""
        if not isinstance(self.env, TypedEnv):
            return {"action": {}, "observation": {}, "state": State.model_json_schema()}
        environment = self.env.environment
        return {
            "action": environment.action_model.model_json_schema(),
            "observation": environment.observation_model.model_json_schema(),
            "state": type(environment.state).model_json_schema(),
        }

    # -- operations ---------------------------------------------------------------------------

    def execute(self, op: str, args: list[Any], rng: dict[str, Any] | None = None) -> Outcome:
        """Run one operation.

        Args:
            op: Name of the operation.
            args: Its arguments, as the protocol has them.
            rng: State of the generator to set first, where the client drew from it.

        Raises:
            ProtocolError: No such operation, or arguments of the wrong form.
            InvalidActionError: The action is not in the action space.
            ResetNeededError: `step` or `render` before `reset`.
            Exception: Whatever the environment raises.
        """
        operation = self._operations.get(op)
        if operation is None:
            raise errors.ProtocolError(
                f"Unknown operation {op!r:.40}, expected one of {', '.join(self._operations)}.",
                field="op",
            )
        if rng is not None:
            self._set_rng(rng)
        begin_ns = time.perf_counter_ns()
        try:
            value = operation(*args)
        except TypeError as error:
            if error.__traceback__ is not None and error.__traceback__.tb_next is None:
                raise errors.ProtocolError(
                    f"Operation {op} does not take these {len(args)} arguments.", field="args"
                ) from None
            raise
        took_ns = time.perf_counter_ns() - begin_ns
        extras: dict[str, Any] = {}
        changed = self._rng_changed()
        if changed is not None:
            extras["rng"] = changed
        if self._observed and op in ("reset", "step", "set", "call", "restore_state"):
            extras["observed"] = self._values()
        return value, took_ns, extras

    def close(self) -> None:
        """Close the environment."""
        self.env.close()

    def _reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> list[Any]:
        observation, info = self.env.reset(seed=seed, options=options)
        if seed is not None:
            self._rng_known = None  # the seed itself is news, even where the state is not
        self._started = True
        self._steps = 0
        self._episode += 1
        return [observation, info]

    def _step(self, action: Any) -> list[Any]:
        self._need_reset("step")
        if not self._typed:  # a typed environment checks more, and does it itself
            check_hosted_action(self.env.action_space, action)
        self._steps += 1
        return list(self.env.step(action))

    def _render(self) -> Any:
        self._need_reset("render")
        return self.env.render()

    def _state(self) -> dict[str, Any]:
        if isinstance(self.env, TypedEnv):
            return self.env.environment.state.model_dump()
        return {"episode_id": str(self._episode), "step_count": self._steps}

    def _get(self, path: str) -> Any:
        return attributes.describe(attributes.resolve(self._target, path))

    def _set(self, path: str, value: Any) -> None:
        attributes.assign(self._target, path, value)

    def _call(self, path: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        return attributes.describe(attributes.resolve(self._target, path)(*args, **kwargs))

    def _observe(self, paths: list[str]) -> None:
        for path in paths:
            if path not in self.observables:
                raise errors.ProtocolError(
                    f"{path!r:.60} cannot be observed, only {', '.join(self.observables)}.",
                    field="paths",
                )
        self._observed = list(paths)

    def _values(self) -> list[Any] | None:
        try:
            found = [attributes.resolve(self._target, path) for path in self._observed]
            return [value() if callable(value) else value for value in found]
        except Exception:
            # Whoever reads it asks for it then, and gets the exception.
            return None

    def _save_state(self) -> Any:
        self._need_reset("save_state")
        return [self._steps, self._environment("save").save_state()]

    def _restore_state(self, saved: Any) -> None:
        environment = self._environment("restore")
        try:
            steps, state = saved
        except (TypeError, ValueError):
            raise errors.ProtocolError(
                "Expected what save_state returned.", field="saved"
            ) from None
        environment.restore_state(state)
        self._steps = int(steps)
        self._started = True

    def _environment(self, verb: str) -> Environment[Any, Any, Any]:
        if isinstance(self.env, TypedEnv):
            return self.env.environment
        raise NotImplementedError(f"{type(self._base).__name__} cannot {verb} its state.")

    def _need_reset(self, op: str) -> None:
        if not self._started:
            raise errors.ResetNeededError(
                f"Cannot call {op} before reset.", hint="Call reset() first."
            )

    # -- random generator ---------------------------------------------------------------------

    def _rng_changed(self) -> dict[str, Any] | None:
        """Return the generator's state where the client does not know it yet."""
        generator = self._base._np_random
        if generator is None:
            return None
        state = generator.bit_generator.state
        if self._rng_known is not None and _same(state, self._rng_known):
            return None
        self._rng_known = state
        return {"seed": self._base._np_random_seed, "state": state}

    def _set_rng(self, rng: dict[str, Any]) -> None:
        state = rng.get("state")
        if not isinstance(state, dict) or not isinstance(state.get("bit_generator"), str):
            raise errors.ProtocolError("Expected the state of a NumPy BitGenerator.", field="rng")
        try:
            generator = self._base._np_random
            if (
                generator is None
                or type(generator.bit_generator).__name__ != state["bit_generator"]
            ):
                generator = np.random.Generator(getattr(np.random, state["bit_generator"])())
                self._base.np_random = generator
            generator.bit_generator.state = state
        except (AttributeError, TypeError, ValueError, KeyError) as error:
            raise errors.ProtocolError(f"Not a generator state: {error}.", field="rng") from error
        self._rng_known = state


def _same(a: Any, b: Any) -> bool:
    """Compare generator states, which hold arrays for some generators (MT19937 and Philox)."""
    try:
        return bool(a == b)
    except ValueError:
        return a.keys() == b.keys() and all(_same_item(a[key], b[key]) for key in a)


def _same_item(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return isinstance(b, dict) and _same(a, b)
    return np.array_equal(a, b)
