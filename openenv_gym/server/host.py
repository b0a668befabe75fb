"""One environment of one session: operations in, plain values out. Knows nothing of the wire."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import MethodType
from typing import Any, Protocol

import gymnasium

from openenv_gym import errors
from openenv_gym.models import State
from openenv_gym.models.mcp import is_tool_action
from openenv_gym.protocol.codec import encode_packet
from openenv_gym.protocol.generators import generator_state, same_state, set_state
from openenv_gym.server import attributes
from openenv_gym.server.adapter import TypedEnv
from openenv_gym.server.describing import describe_hosted, describe_own, hosted_mask
from openenv_gym.server.environment import AnyEnvironment, Environment
from openenv_gym.server.mcp.environment import MCPEnvironment
from openenv_gym.server.mcp.rpc import ToolRpc
from openenv_gym.server.openenv.tasks import call_task_method
from openenv_gym.server.operations import find_operation, run_operation
from openenv_gym.server.typed import (
    Outcome,
    TypedGymnasium,
    TypedOwn,
    outcome_to_json,
    outcome_to_values,
    to_plain,
)
from openenv_gym.spaces import space_to_data
from openenv_gym.spaces.actions import check_hosted_action


__all__ = ["EnvironmentHost", "Host", "describe_env", "with_numpy_arrays"]

_CHANGING = frozenset(
    {"reset", "step", "set", "call", "restore_state", "reset_typed", "step_typed", "mcp"}
)
"""Operations after which observed values may be others."""

_MASK = "action_mask"
"""What Gymnasium's environments call the legal actions in their infos."""


class Host(Protocol):
    """What a session needs of whatever it holds."""

    def describe(self) -> dict[str, Any]:
        """Return the part of the map ``environment`` of WELCOME that the environment decides."""

    def schemas(self) -> dict[str, Any]:
        """Return JSON Schemas of action, observation and state."""

    def execute(self, op: str, args: list[Any], rng: Any = None) -> tuple[Any, int]:
        """Run one operation; return its value, and the nanoseconds that the environment took."""

    def extras(self, op: str) -> dict[str, Any]:
        """Return what must go along with the reply to the operation that was just run."""

    def close(self) -> None:
        """Close what is held."""


class EnvironmentHost:
    """Runs the operations of docs/protocol.md, section 4.2, on an environment.

    Args:
        environment: What a session was opened for.
        observables: Paths that `observe` takes, beside those that the environment names itself.
        tasks: What has the tasks (a `TaskProvider`); by default the environment, where it does.

    Attributes:
        time_limit: Steps after which the environment's own spec has an episode truncated, by the
            client; None if never.
    """

    def __init__(
        self,
        environment: AnyEnvironment,
        observables: tuple[str, ...] = (),
        tasks: object | None = None,
    ) -> None:
        self.env: gymnasium.Env[Any, Any]
        if isinstance(environment, Environment):
            self.env = TypedEnv(environment)
            self._target = environment.remote_target
            observables = (*environment.observables, *observables)
        else:
            self.env = with_numpy_arrays(environment)
            self._target = environment.unwrapped
        self.observables = observables
        self._base = self.env.unwrapped
        self.time_limit: int | None = vars(environment).get("openenv_time_limit")
        self._typed = isinstance(self.env, TypedEnv)
        self._tasks = tasks if tasks is not None else getattr(environment, "unwrapped", environment)
        self._models: TypedOwn | TypedGymnasium | None = None
        self._has_tools = isinstance(environment, MCPEnvironment)
        self._rpc = ToolRpc(environment)
        self._started = False
        self._steps = 0
        self._mask: Any = None  # of the last info, where there is one
        self._episode = 0
        self._observed: list[str] = []
        self._rng_known: Any = None

    # -- description --------------------------------------------------------------------------

    def describe(self) -> dict[str, Any]:
        """Return the part of the map ``environment`` of WELCOME that this environment decides.

        Raises:
            SpaceError: A space cannot be carried.
        """
        return {
            **describe_env(self.env, type(self._target).__name__),
            "observables": list(self.observables),
            "rng": self._rng_changed(),
            "time_limit": self.time_limit,
        }

    def schemas(self) -> dict[str, Any]:
        """Return JSON Schemas of action, observation and state."""
        if not isinstance(self.env, TypedEnv):
            return {"action": {}, "observation": {}, "state": State.model_json_schema()}
        return self.env.environment.json_schemas()

    def describe_kinds(self) -> dict[str, Any]:
        """Return what an agent is told about the actions, but for which of them are legal now."""
        described = self._describe_actions()
        del described["legal"]
        return described

    def typed_schemas(self) -> dict[str, Any]:
        """Return the same in terms of typed operations: models made of spaces included.

        Raises:
            SpaceError: There is no model of a space.
        """
        schemas = self.schemas()
        if not self._typed:
            schemas["action"] = self._side.action_model.model_json_schema()
            schemas["observation"] = self._side.observation_model.model_json_schema()
        return schemas

    # -- operations ---------------------------------------------------------------------------

    def execute(self, op: str, args: list[Any], rng: Any = None) -> tuple[Any, int]:
        """Run one operation; `extras` must follow, whether it fails or not.

        Args:
            op: Name of the operation.
            args: Its arguments, as the protocol has them.
            rng: State of the generator to set first, where the client drew from it.

        Returns:
            The value, and the nanoseconds that the environment took.

        Raises:
            ProtocolError: No such operation, or arguments of the wrong form.
            InvalidActionError: The action is not in the action space.
            ResetNeededError: `step` or `render` before `reset`.
            Exception: Whatever the environment raises.
        """
        operation = find_operation(_OPERATIONS, op)
        if rng is not None:
            self._set_rng(rng)
        return run_operation(MethodType(operation, self), op, args)

    def extras(self, op: str) -> dict[str, Any]:
        """Return what must go along with the reply to the operation that was just run."""
        extras: dict[str, Any] = {}
        changed = self._rng_changed()
        if changed is not None:
            extras["rng"] = changed
        if self._observed and op in _CHANGING:
            extras["observed"] = self._values()
        return extras

    def close(self) -> None:
        """Close the environment."""
        self.env.close()

    def _reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> list[Any]:
        observation, info = self.env.reset(seed=seed, options=options)
        self._has_begun(seed)
        self._mask = _mask_of(info)
        return [observation, info]

    def _has_begun(self, seed: int | None) -> None:
        """Note that an episode has begun."""
        if seed is not None:
            self._rng_known = None  # the seed itself is news, even where the state is not
        self._started = True
        self._steps = 0
        self._episode += 1

    def _step(self, action: Any) -> list[Any]:
        self._need_reset("step")
        if not self._typed:  # a typed environment checks more, and does it itself
            check_hosted_action(self.env.action_space, action)
        self._steps += 1
        outcome = list(self.env.step(action))
        self._mask = _mask_of(outcome[-1])
        return outcome

    def _render(self) -> Any:
        self._need_reset("render")
        return self.env.render()

    def _state(self) -> dict[str, Any]:
        if isinstance(self.env, TypedEnv):
            return self.env.environment.state.model_dump()
        name = str(self._episode) if self._episode else None  # there has been none yet
        return {"episode_id": name, "step_count": self._steps}

    def _get(self, path: str) -> list[Any]:
        return attributes.describe(attributes.resolve(self._target, path))

    def _set(self, path: str, value: Any) -> None:
        attributes.assign(self._target, path, value)

    def _call(self, path: str, args: Any, kwargs: Any) -> Any:
        if not isinstance(args, list) or not isinstance(kwargs, dict):
            raise errors.ProtocolError("Expected [path, list, map].", field="args")
        return attributes.resolve(self._target, path)(*args, **kwargs)

    def _observe(self, paths: list[str]) -> None:
        if not isinstance(paths, list):
            raise errors.ProtocolError(f"Expected a list, got {paths!r:.40}.", field="paths")
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

    def _ping(self) -> None:
        """Do nothing, in its turn."""

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

    # -- typed operations (docs/protocol.md, section 4.7) ---------------------------------------

    @property
    def _side(self) -> TypedOwn | TypedGymnasium:
        """The environment in terms of models, made when it is first asked for."""
        if self._models is None:
            if isinstance(self.env, TypedEnv):
                self._models = TypedOwn(self.env.environment)
            else:
                self._models = TypedGymnasium(self.env, self.time_limit)
        return self._models

    def _reset_typed(self, arguments: dict[str, Any]) -> Outcome:
        if not isinstance(arguments, dict):
            raise errors.ProtocolError(f"Expected a map, got {arguments!r:.40}.", field="args")
        outcome = self._side.reset(arguments)
        self._has_begun(arguments.get("seed"))
        self._mask = _mask_of(outcome.metadata)
        return outcome

    def _step_typed(self, action: dict[str, Any], timeout_s: float | None = None) -> Outcome:
        if not isinstance(action, dict):
            raise errors.ProtocolError(f"Expected a map, got {action!r:.40}.", field="args")
        if self._has_tools and is_tool_action(action):
            self._reset_for_tools()
        else:
            self._need_reset("step")
        self._steps += 1
        outcome = self._side.step(action, self._steps, timeout_s)
        self._mask = _mask_of(outcome.metadata)
        return outcome

    def _describe_actions(self) -> dict[str, Any]:
        if isinstance(self.env, TypedEnv):
            return describe_own(self.env.environment, self._mask, started=self._started)
        mask = hosted_mask(self.env, self._mask) if self._started else None
        return describe_hosted(self.env, self._side.action_model, mask)

    # -- tools ----------------------------------------------------------------------------------

    def _mcp(self, message: Any) -> dict[str, Any] | None:
        return self._rpc.answer(message, before_call=self._reset_for_tools)

    def _reset_for_tools(self) -> None:
        """Begin an episode where an agent calls a tool and nobody has begun one."""
        if not self._started:
            self._reset_typed({})

    def _json_task(self, method: Any, args: Any) -> str:
        if not isinstance(args, list):
            raise errors.ProtocolError(f"Expected a list, got {args!r:.40}.", field="args")
        return json.dumps(to_plain(call_task_method(self._tasks, method, args)))

    # -- random generator ---------------------------------------------------------------------

    def _rng_changed(self) -> dict[str, Any] | None:
        """Return the generator's state where the client does not know it yet."""
        state = generator_state(self._base._np_random)
        if state is None:
            return None
        if self._rng_known is not None and same_state(state, self._rng_known):
            return None
        self._rng_known = state
        return {"seed": self._base._np_random_seed, "state": state}

    def _set_rng(self, rng: Any) -> None:
        seed = rng.get("seed") if isinstance(rng, dict) else None
        if not isinstance(rng, dict) or (seed is not None and type(seed) is not int):
            raise errors.ProtocolError(
                f"Expected a map of seed and state, got {rng!r:.80}.", field="rng"
            )
        generator = set_state(self._base._np_random, rng.get("state"))
        if generator is not self._base._np_random:
            self._base._np_random = generator
        self._base._np_random_seed = seed
        self._rng_known = None  # the client waits to hear that it arrived


# Not bound to a host, which would hold itself then: an environment goes with its session, and does
# not wait for the garbage collector, however large it is.
_OPERATIONS: dict[str, Callable[..., Any]] = {
    "reset": EnvironmentHost._reset,
    "step": EnvironmentHost._step,
    "render": EnvironmentHost._render,
    "state": EnvironmentHost._state,
    "get": EnvironmentHost._get,
    "set": EnvironmentHost._set,
    "call": EnvironmentHost._call,
    "observe": EnvironmentHost._observe,
    "ping": EnvironmentHost._ping,
    "save_state": EnvironmentHost._save_state,
    "restore_state": EnvironmentHost._restore_state,
    "reset_typed": lambda host, arguments: outcome_to_values(host._reset_typed(arguments)),
    "step_typed": lambda host, action, timeout_s=None: outcome_to_values(
        host._step_typed(action, timeout_s)
    ),
    "json_reset": lambda host, arguments: outcome_to_json(host._reset_typed(arguments)),
    "json_step": lambda host, action, timeout_s=None: outcome_to_json(
        host._step_typed(action, timeout_s)
    ),
    "describe_actions": EnvironmentHost._describe_actions,
    "mcp": EnvironmentHost._mcp,
    "json_mcp": lambda host, message: json.dumps(host._mcp(message)),
    "json_state": lambda host: json.dumps(to_plain(host._state())),
    "json_task": EnvironmentHost._json_task,
}


def _mask_of(info: Any) -> Any:
    return info.get(_MASK) if isinstance(info, dict) else None


def describe_env(env: Any, name: str) -> dict[str, Any]:
    """Return what WELCOME says of any environment.

    Args:
        env: A `gymnasium.Env`, or what has its spaces, metadata and render mode.
        name: Name of its class.

    Raises:
        SpaceError: A space cannot be carried.
    """
    metadata = dict(env.metadata or {})
    metadata.pop("jax", None)  # what travels is NumPy's, whatever it was computed with
    return {
        "name": name,
        "action_space": space_to_data(env.action_space),
        "observation_space": space_to_data(env.observation_space),
        "metadata": {_sendable(key): _sendable(value) for key, value in metadata.items()},
        "render_mode": env.render_mode,
    }


def with_numpy_arrays(env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    """Convert JAX's arrays, for which the wire has no form, as Gymnasium's own wrapper does."""
    if not (env.metadata or {}).get("jax"):
        return env
    from gymnasium.wrappers import JaxToNumpy

    wrapped: gymnasium.Env[Any, Any] = JaxToNumpy(env)
    return wrapped


def _sendable(value: Any) -> Any:
    """Return a value of the metadata, as text where it cannot be sent."""
    value = getattr(value, "value", value)
    try:
        encode_packet([value])
    except errors.EncodeError:
        return repr(value)
    return value
