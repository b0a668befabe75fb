"""Who acts in ``openenv-gym rollout``: chance, or a function of the user's."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click


__all__ = ["Policy", "load_policy", "random_policy"]

Policy = Callable[[int, Any, dict[str, Any]], Any]
"""Takes the number of a sub-environment, its observation and its info; returns an action."""


def random_policy(envs: Any, seed: int | None) -> Policy:
    """Return a policy that draws from the action space, legal actions only where infos tell them.

    Args:
        envs: The vector environment. Each sub-environment has a generator of its own, so that what
            happens in one does not depend on how many there are. Where actions are calls of tools,
            calls are drawn.
        seed: Of the first generator; the next has the next integer.
    """
    from openenv_gym.policies import Chance, describe_calls

    chance = Chance(envs.single_action_space, envs.num_envs, describe_calls(envs))
    for number in range(envs.num_envs):
        chance.seed(number, None if seed is None else seed + number)

    def act(number: int, observation: Any, info: dict[str, Any]) -> Any:
        return chance.draw(number, info.get("action_mask"))

    return act


def load_policy(text: str) -> Policy:
    """Return the policy that ``PATH:FUNCTION`` or ``MODULE:FUNCTION`` names.

    The function takes an observation, or an observation and an info, of one sub-environment, and
    returns an action.

    Raises:
        click.BadParameter: There is no such file or function.
    """
    place, colon, name = text.rpartition(":")
    if not colon or not name.isidentifier():
        raise click.BadParameter(
            f"expected 'random' or PATH:FUNCTION, such as policy.py:act, not {text!r}",
            param_hint="--policy",
        )
    found = getattr(_import(place), name, None)
    if not callable(found):
        raise click.BadParameter(f"{place} has no function {name!r}", param_hint="--policy")
    takes_info = _takes_info(found)

    def act(number: int, observation: Any, info: dict[str, Any]) -> Any:
        return found(observation, info) if takes_info else found(observation)

    return act


def _import(place: str) -> Any:
    path = Path(place)
    try:
        if path.suffix != ".py":
            sys.path.insert(0, os.getcwd())
            return importlib.import_module(place)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    except Exception as error:  # whatever the module does when it is imported
        raise click.BadParameter(
            f"{place} cannot be imported: {type(error).__name__}: {error}", param_hint="--policy"
        ) from error


def _takes_info(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind(None, None)
    except (TypeError, ValueError):
        return False
    return True
