"""Environments for verl: their tools as `BaseTool`, an episode for each trajectory.

::

    python -m openenv_gym.verl openenv/TextBlackjack-v0 > tools.yaml

writes what verl's ``actor_rollout_ref.rollout.multi_turn.tool_config_path`` names. A row of the
dataset seeds its episode, and the members of its group share it::

    "extra_info": {"tools_kwargs": {"play": {"create_kwargs": {"seed": 7}}}}

docs/llm_trainers.md has more.
"""

from __future__ import annotations

import argparse
import threading
import uuid
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from openenv_gym import errors
from openenv_gym.agents.episode import Turn
from openenv_gym.agents.pool import AgentPool
from openenv_gym.agents.session import AgentSession
from openenv_gym.agents.shared import shared_pool


try:
    from verl.tools.base_tool import BaseTool
    from verl.tools.schemas import OpenAIFunctionToolSchema, ToolResponse
except ModuleNotFoundError as error:
    if error.name is None or error.name.partition(".")[0] != "verl":
        raise
    raise ModuleNotFoundError(
        "verl is not installed; run pip install verl.", name="verl"
    ) from error

__all__ = ["OBSERVE", "OpenEnvTool", "tool_config"]

OBSERVE = "observe"
"""The tool that says what there is to see, before the agent has done anything: verl has no other
place for that."""

_CLASS = f"{__name__}.OpenEnvTool"
_OURS = ("type", "tool")
_DEEPEST = 8  # of a schema that contains itself
_KINDS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (float,),
    "boolean": (bool,),
    "null": (type(None),),
    "array": (list,),
    "object": (dict,),
}
"""All that JSON has, which verl is told of a value of which nothing is known."""


def tool_config(env_id: str, **pool: Any) -> dict[str, Any]:
    """Return the configuration of all tools of an environment, as verl reads it from YAML.

    Args:
        env_id: One of our ids.
        **pool: Further arguments of `AgentPool`, as plain data.

    Raises:
        InvalidOptionError: An argument has a value that is not taken.
        OpenEnvGymError: There is no server to be asked for the tools, or it fails.
    """
    config = {"type": "native", "env_id": env_id, **pool}
    names = [OBSERVE, *(tool.name for tool in _pool(config).abilities.tools)]
    return {"tools": [{"class_name": _CLASS, "config": {**config, "tool": name}} for name in names]}


class OpenEnvTool(BaseTool):  # type: ignore[misc]  # it has no types
    """One tool of an environment; see `tool_config`.

    All tools of a trajectory act in one episode, which the first call begins. verl of today makes
    an instance for each call and passes `agent_data`, to which the episode belongs; where it is
    not passed, the episode is that of the instance.

    Args:
        config: ``env_id``, ``tool``, and further arguments of `AgentPool`.
        tool_schema: What the model is told, in place of what the environment says.

    Raises:
        InvalidOptionError: The environment has no such tool.
        OpenEnvGymError: There is no server, or it fails.
    """

    def __init__(self, config: dict[str, Any], tool_schema: Any = None) -> None:
        self._tool = str(config.get("tool") or tool_schema.function.name)
        pool = _pool(config)
        told = _schema_of(pool, self._tool)
        super().__init__(config, tool_schema or OpenAIFunctionToolSchema.model_validate(told))
        self._trajectories = _trajectories_of(pool)
        self._created: dict[str, Mapping[str, Any]] = {}

    async def create(self, instance_id: str | None = None, **kwargs: Any) -> tuple[str, Any]:
        """Make an instance; ``create_kwargs`` has the ``seed``, and ``options`` of the reset."""
        name = instance_id or uuid.uuid4().hex
        self._created[name] = kwargs.get("create_kwargs") or {}
        return name, ToolResponse()

    async def execute(
        self, instance_id: str, parameters: dict[str, Any], **kwargs: Any
    ) -> tuple[Any, float, dict[str, Any]]:
        """Call the tool.

        Returns:
            The response, the reward of the call, and metrics: ``done``, ``refused``, the scores of
            the rubric's parts.

        Raises:
            OpenEnvGymError: The server failed, and ``on_failure`` is not ``"end"``.
        """
        owner = kwargs.get("agent_data")
        begun = self._created.get(instance_id, {})
        session, first = await self._trajectories.begin(
            instance_id if owner is None else owner, begun
        )
        if self._tool == OBSERVE:
            turn = first
        else:
            turn = await session.call(self._tool, parameters)
        metrics = {"done": turn.done, "refused": turn.refused, **turn.components}
        return ToolResponse(text=turn.text), turn.reward, metrics

    async def calc_reward(self, instance_id: str, **kwargs: Any) -> float:
        """Return what the episode of an instance earned so far."""
        return self._trajectories.score(kwargs.get("agent_data") or instance_id)

    async def release(self, instance_id: str, **kwargs: Any) -> None:
        """Forget an instance, and the episode where it is the instance's own."""
        self._created.pop(instance_id, None)
        self._trajectories.end(instance_id)


class _Trajectories:
    """The sessions of the trajectories that are under way in this process."""

    def __init__(self, pool: AgentPool) -> None:
        self._pool = pool
        self._lock = threading.RLock()  # `end` may run, as a finalizer, in a thread that holds it
        self._running: dict[Any, tuple[AgentSession, Turn]] = {}

    async def begin(self, owner: Any, begun: Mapping[str, Any]) -> tuple[AgentSession, Turn]:
        """Return the session of a trajectory, and what it was told at first."""
        key = owner if isinstance(owner, str) else id(owner)
        found = self._running.get(key)
        if found is not None:
            return found
        session = await self._pool.asession()
        turn = await session.begin(seed=begun.get("seed"), options=begun.get("options"))
        with self._lock:
            first = self._running.setdefault(key, (session, turn))
        if first[0] is not session:  # two calls at once began it
            self._pool.give_back(session)
        elif not isinstance(owner, str):
            weakref.finalize(owner, self.end, key)
        return first

    def score(self, owner: Any) -> float:
        """Return what a trajectory earned so far."""
        found = self._running.get(owner if isinstance(owner, str) else id(owner))
        return 0.0 if found is None else found[0].score

    def end(self, key: Any) -> None:
        """Let somebody else have the session of a trajectory; safe to repeat."""
        with self._lock:
            found = self._running.pop(key, None)
        if found is not None:
            self._pool.give_back(found[0])


_of_pools: dict[AgentPool, _Trajectories] = {}
_of_pools_lock = threading.Lock()


def _trajectories_of(pool: AgentPool) -> _Trajectories:
    with _of_pools_lock:
        return _of_pools.setdefault(pool, _Trajectories(pool))


def _pool(config: Mapping[str, Any]) -> AgentPool:
    return shared_pool({name: value for name, value in config.items() if name not in _OURS})


def _schema_of(pool: AgentPool, name: str) -> dict[str, Any]:
    """Return a tool as verl's models have it, which know no nested schemas."""
    if name == OBSERVE:
        said = "Say what there is to see at the beginning."
        parameters: dict[str, Any] = {"type": "object", "properties": {}, "required": []}
        function = {"name": OBSERVE, "description": said, "parameters": parameters}
        return {"type": "function", "function": function}
    try:
        told = pool.abilities.tool(name).to_openai()
    except errors.InvalidActionError as error:
        raise errors.InvalidOptionError(error.message, field="tool", hint=error.hint) from error
    schema = told["function"]["parameters"]
    definitions = schema.get("$defs") or {}
    properties = {each: _property(it, definitions) for each, it in schema["properties"].items()}
    flat = {
        "type": "object",
        "properties": properties,
        "required": list(schema.get("required", ())),
    }
    return {**told, "function": {**told["function"], "parameters": flat}}


def _property(
    schema: Mapping[str, Any], definitions: Mapping[str, Any], depth: int = 0
) -> dict[str, Any]:
    """Return an argument as verl has it: its kinds, its words, and its values where they are few.

    Args:
        schema: The schema of a value.
        definitions: What its references name.
        depth: How deep inside another one it is.
    """
    if depth > _DEEPEST:
        return {"type": list(_KINDS)}
    named: Sequence[Any] = schema.get("allOf") or ()
    if "$ref" in schema or len(named) == 1:
        name = str(schema.get("$ref")).rpartition("/")[2]
        inner = (definitions.get(name) or {}) if "$ref" in schema else named[0]
        own = {key: value for key, value in schema.items() if key not in ("$ref", "allOf")}
        return _property({**inner, **own}, definitions, depth + 1)
    flat: dict[str, Any] = {}
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        parts = [_property(each, definitions, depth + 1) for each in choices]
        kinds = [kind for part in parts for kind in _listed(part["type"])]
        values = [part.get("enum", [None] if part["type"] == "null" else []) for part in parts]
        few = all(values) and any("enum" in part for part in parts)
        flat["enum"] = [value for each in values for value in each] if few else None
    else:
        flat["enum"] = [schema["const"]] if "const" in schema else schema.get("enum")
        kinds = _listed(schema.get("type") or [_kind_of(each) for each in flat["enum"] or ()])
    kinds = list(dict.fromkeys(kinds)) or list(_KINDS)
    flat["type"] = kinds[0] if len(kinds) == 1 else kinds
    flat["description"] = schema.get("description")
    return {name: flat[name] for name in ("type", "description", "enum") if flat[name] is not None}


def _listed(kinds: str | list[str]) -> list[str]:
    return [kinds] if isinstance(kinds, str) else list(kinds)


def _kind_of(value: Any) -> str:
    """Return what JSON Schema calls the kind of a value."""
    return next(kind for kind, types in _KINDS.items() if type(value) in types)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the configuration of an environment's tools."""
    parser = argparse.ArgumentParser(prog=f"python -m {__name__}", description=main.__doc__)
    parser.add_argument("env_id")
    parser.add_argument(
        "--option", action="append", default=[], metavar="KEY=VALUE", help="of `AgentPool`"
    )
    parsed = parser.parse_args(arguments)
    options = dict(option.split("=", 1) for option in parsed.option)
    made = tool_config(
        parsed.env_id, **{name: yaml.safe_load(value) for name, value in options.items()}
    )
    print(yaml.safe_dump(made, sort_keys=False), end="")


if __name__ == "__main__":
    main()
