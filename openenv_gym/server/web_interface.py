"""``create_web_interface_app``: an application whose server shows the page, as OpenEnv has it."""

from __future__ import annotations

import atexit
import inspect
import threading
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import gymnasium

from openenv_gym import errors
from openenv_gym.models import Action, Observation
from openenv_gym.server.application import Application, create_app
from openenv_gym.server.environment import AnyEnvironment, Environment
from openenv_gym.server.host import EnvironmentHost
from openenv_gym.server.mcp.environment import MCPEnvironment
from openenv_gym.server.multi_agent.hosting import is_multi_agent


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
    each client, has an environment of its own. Where `env` is an instance, one session after the
    other has that one; who comes while somebody has it, or asks for options, gets one that is made
    of its class, where that can be made without arguments.

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
    made: Any = env  # what is called, and what it looks like to who calls it
    like: Any = env
    signature: inspect.Signature | None = None
    given = not callable(env) or isinstance(env, (Environment, gymnasium.Env))
    if given:
        like = type(env)
        again = _is_made_of_nothing(like)
        made = _Instance(env, like if again else None).make  # type: ignore[arg-type]
        signature = None if again else inspect.Signature()
    name = env_name or str(getattr(like, "__name__", type(env).__name__))

    def complete(environment: Any) -> Any:
        if isinstance(environment, Environment):
            for attribute, model in (
                ("action_model", action_cls),
                ("observation_model", observation_cls),
            ):
                if model is not None and getattr(environment, attribute, None) is None:
                    setattr(environment, attribute, model)
        return environment

    def make(**options: Any) -> AnyEnvironment:
        environment: AnyEnvironment = complete(made(**options))
        return environment

    make.__name__, make.__doc__ = name, inspect.getdoc(like)
    make.__signature__ = signature or _signature_of(like)  # type: ignore[attr-defined]
    app = replace(create_app(make, name=name, **details), web=True)
    return _OfInstance.of(app, complete(env)) if given else app


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


class _Instance:
    """The environment that was given: one session after the other has it, and others their own.

    Args:
        env: The environment.
        further: Makes others, where its class can be made without arguments.
    """

    def __init__(self, env: AnyEnvironment, further: Callable[..., AnyEnvironment] | None) -> None:
        self._env = env
        self._further = further
        self._lock = threading.Lock()
        self._lent = False
        # Nobody closes what is given back but the end of the program, whose it is.
        atexit.register(env.close)

    def make(self, **options: Any) -> AnyEnvironment:
        """Return the environment; where options are asked for, or somebody has it, another one.

        Raises:
            CapacityError: Somebody has it, and there is no other one.
        """
        with self._lock:
            taken = not self._lent and not options
            self._lent = self._lent or taken
        if taken:
            return _lent(self._env, self._take_back)
        if self._further is not None:
            return self._further(**options)
        raise errors.CapacityError(
            f"There is one {type(self._env).__name__}, which another session has.",
            hint="Pass create_web_interface_app a class, or a function that makes them.",
        )

    def _take_back(self) -> None:
        with self._lock:
            self._lent = False


def _lent(env: AnyEnvironment, take_back: Callable[[], None]) -> AnyEnvironment:
    """Return an environment as a session gets it whose `close` gives it back.

    It draws as it was made: where with no render mode, it has none to be asked for, since that
    would be another environment.
    """
    metadata = dict(env.metadata or {})
    if getattr(env, "render_mode", None) is None:
        metadata["render_modes"] = []
    if isinstance(env, gymnasium.Env):
        return _Lent(env, metadata, take_back)
    vars(env).update(metadata=metadata, close=take_back)
    return env


class _Lent(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A `gymnasium.Env` that is given back, and may close itself as it likes."""

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        metadata: dict[str, Any],
        take_back: Callable[[], None],
    ) -> None:
        super().__init__(env)
        self.metadata = metadata
        self._take_back: Callable[[], None] | None = take_back

    def close(self) -> None:
        """Give it back, once."""
        take_back, self._take_back = self._take_back, None
        if take_back is not None:
            take_back()


@dataclass(frozen=True)
class _OfInstance(Application):
    """An application that tells of the environment it was given, whoever has it.

    Attributes:
        given: The environment.
    """

    given: Any = None

    @classmethod
    def of(cls, app: Application, given: Any) -> _OfInstance:
        """Return an application that is like another one."""
        return cls(**{each.name: getattr(app, each.name) for each in fields(app)}, given=given)

    def schemas(self) -> dict[str, Any]:
        """Return what ``GET /schema`` answers."""
        if self.options or is_multi_agent(self.given):  # it is not what sessions get
            return super().schemas()
        if isinstance(self.given, MCPEnvironment):
            self.given.mode = self.mode
        host = EnvironmentHost(self.given, self.observables(self.given), self.tasks)
        return {**host.typed_schemas(), "actions": host.describe_kinds()}
