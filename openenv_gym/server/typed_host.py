"""Typed operations on an environment, OpenEnv's included (docs/protocol.md, section 4.7)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import gymnasium

from openenv_gym import errors
from openenv_gym.models import State
from openenv_gym.models.mcp import is_tool_action
from openenv_gym.server.adapter import TypedEnv
from openenv_gym.server.describing import describe_hosted, describe_own, hosted_mask
from openenv_gym.server.environment import AnyEnvironment
from openenv_gym.server.mcp.environment import MCPEnvironment
from openenv_gym.server.mcp.rpc import ToolRpc
from openenv_gym.server.openenv.tasks import call_task_method
from openenv_gym.server.plain import to_plain
from openenv_gym.server.typed import (
    Outcome,
    TypedGymnasium,
    TypedOwn,
    outcome_to_json,
    outcome_to_values,
)


__all__ = ["TYPED_OPERATIONS", "TypedHost", "mask_of"]

_MASK = "action_mask"
"""What Gymnasium's environments call the legal actions in their infos."""


class TypedHost:
    """An environment in terms of models, and its episodes.

    Args:
        env: The environment in Gymnasium's terms.
        environment: The environment as it was made.
        tasks: What has the tasks (a `TaskProvider`); by default the environment, where it does.

    Attributes:
        time_limit: Steps after which the environment's own spec has an episode truncated, by the
            client; None if never.
    """

    def __init__(
        self, env: gymnasium.Env[Any, Any], environment: AnyEnvironment, tasks: object | None
    ) -> None:
        self.env = env
        self.time_limit: int | None = vars(environment).get("openenv_time_limit")
        self._typed = isinstance(env, TypedEnv)
        self._tasks = tasks if tasks is not None else getattr(environment, "unwrapped", environment)
        self._models: TypedOwn | TypedGymnasium | None = None
        self._has_tools = isinstance(environment, MCPEnvironment)
        self._rpc = ToolRpc(environment)
        self._started = False
        self._steps = 0
        self._mask: Any = None  # of the last info, where there is one
        self._episode = 0

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

    # -- episodes -----------------------------------------------------------------------------

    def _has_begun(self, seed: int | None) -> None:
        """Note that an episode has begun, with this seed."""
        self._started = True
        self._steps = 0
        self._episode += 1

    def _need_reset(self, op: str) -> None:
        if not self._started:
            raise errors.ResetNeededError(
                f"Cannot call {op} before reset.", hint="Call reset() first."
            )

    def _state(self) -> dict[str, Any]:
        if isinstance(self.env, TypedEnv):
            return self.env.environment.state.model_dump()
        name = str(self._episode) if self._episode else None  # there has been none yet
        return {"episode_id": name, "step_count": self._steps}

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
        self._mask = mask_of(outcome.metadata)
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
        self._mask = mask_of(outcome.metadata)
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


TYPED_OPERATIONS: dict[str, Callable[..., Any]] = {
    "reset_typed": lambda host, arguments: outcome_to_values(host._reset_typed(arguments)),
    "step_typed": lambda host, action, timeout_s=None: outcome_to_values(
        host._step_typed(action, timeout_s)
    ),
    "json_reset": lambda host, arguments: outcome_to_json(host._reset_typed(arguments)),
    "json_step": lambda host, action, timeout_s=None: outcome_to_json(
        host._step_typed(action, timeout_s)
    ),
    "describe_actions": TypedHost._describe_actions,
    "mcp": TypedHost._mcp,
    "json_mcp": lambda host, message: json.dumps(host._mcp(message)),
    "json_state": lambda host: json.dumps(to_plain(host._state())),
    "json_task": TypedHost._json_task,
}
"""Not bound to a host, which would hold itself then; see `EnvironmentHost`."""


def mask_of(info: Any) -> Any:
    """Return the legal actions that an info names; None where it names none."""
    return info.get(_MASK) if isinstance(info, dict) else None
