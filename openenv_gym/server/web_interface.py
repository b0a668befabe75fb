"""``create_web_interface_app``: an application whose server shows the page, as OpenEnv has it."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from openenv_gym import errors
from openenv_gym.models import Action, Observation
from openenv_gym.server.application import Application, create_app
from openenv_gym.server.environment import AnyEnvironment, Environment


__all__ = ["create_web_interface_app"]


def create_web_interface_app(
    env: AnyEnvironment | Callable[..., AnyEnvironment],
    action_cls: type[Action] | None = None,
    observation_cls: type[Observation] | None = None,
    env_name: str | None = None,
    **details: Any,
) -> Application:
    """Make an application whose server shows the page at ``/web``.

    ``python -m openenv_gym.server my_env.server.app:app`` serves it. Each tab of a browser, and
    each client, has an environment of its own: where `env` is an instance whose class can be made
    without arguments, further ones are made of its class.

    Args:
        env: An environment, or what makes environments: a class, or a function.
        action_cls: Model of its actions, where its class does not name it.
        observation_cls: Model of its observations, likewise.
        env_name: Name of the environment; by default that of its class.
        **details: As `create_app` takes them.

    Raises:
        InvalidOptionError: A model is none, or another one than the environment's own.
        SpaceError: A model has no space; `field` says where in it.
    """
    for name, model, base in (
        ("action_cls", action_cls, Action),
        ("observation_cls", observation_cls, Observation),
    ):
        given: Any = model
        if given is not None and not (isinstance(given, type) and issubclass(given, base)):
            raise errors.InvalidOptionError(
                f"{name}={given!r:.80}: expected a subclass of openenv_gym.{base.__name__}.",
                field=name,
            )
    made: Any = env
    if not callable(env) or isinstance(env, Environment):
        made = type(env) if _is_made_of_nothing(type(env)) else _once(env)
    name = env_name or str(getattr(made, "__name__", type(env).__name__))

    def make(**options: Any) -> AnyEnvironment:
        environment: AnyEnvironment = made(**options)
        if isinstance(environment, Environment):
            for attribute, model in (
                ("action_model", action_cls),
                ("observation_model", observation_cls),
            ):
                if model is not None and getattr(environment, attribute, None) is None:
                    setattr(environment, attribute, model)
        return environment

    make.__name__, make.__doc__ = name, inspect.getdoc(made)
    make.__signature__ = _signature_of(made)  # type: ignore[attr-defined]
    return replace(create_app(make, name=name, **details), web=True)


def _is_made_of_nothing(cls: type[Any]) -> bool:
    """Tell whether a class takes no arguments that it needs."""
    return all(
        parameter.default is not parameter.empty
        or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        for parameter in _signature_of(cls).parameters.values()
    )


def _signature_of(made: Any) -> inspect.Signature:
    try:
        return inspect.signature(made)
    except (TypeError, ValueError):
        anything = inspect.Parameter("options", inspect.Parameter.VAR_KEYWORD)
        return inspect.Signature([anything])


def _once(env: AnyEnvironment) -> Callable[[], AnyEnvironment]:
    """Return what gives away the one environment that there is, to one session."""
    lock, given = threading.Lock(), [env]

    def take() -> AnyEnvironment:
        with lock:
            if not given:
                raise errors.CapacityError(
                    f"There is one {type(env).__name__}, which another session has.",
                    hint="Pass create_web_interface_app a class, or a function that makes them.",
                )
            return given.pop()

    take.__name__ = type(env).__name__
    return take
