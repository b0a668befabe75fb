"""What a server serves: a way to make environments, and facts about them."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from openenv_gym import errors
from openenv_gym.models.manifest import Manifest, load_manifest
from openenv_gym.server.environment import AnyEnvironment, Environment
from openenv_gym.server.host import EnvironmentHost, Host
from openenv_gym.server.mcp.environment import MCPEnvironment
from openenv_gym.server.mode import Mode
from openenv_gym.server.multi_agent.hosting import is_multi_agent
from openenv_gym.server.multi_agent.opening import open_multi_agent
from openenv_gym.server.multi_agent.options import MultiAgentOptions
from openenv_gym.server.multi_agent.seats import Games
from openenv_gym.server.openenv.tasks import TaskProvider
from openenv_gym.server.publication import Publication, publication_of
from openenv_gym.server.vector.host import VectorHost
from openenv_gym.server.vector.making import Traits, make_vector_host
from openenv_gym.server.vector.native import NativeFactory
from openenv_gym.server.vector.options import VectorOptions
from openenv_gym.server.vector.partial import MAX_THREADS
from openenv_gym.spaces.mapping import ModelMapping


__all__ = ["Application", "create_app", "load_app"]

Factory = Callable[..., AnyEnvironment]

MultiAgentFactory = Callable[..., Any]
"""Makes an `AECEnv` or a `ParallelEnv` of PettingZoo; its first argument is the form that is
wanted, the others are the options of the session."""


@dataclass(frozen=True)
class Application:
    """An environment as a server sees it.

    Attributes:
        factory: Makes an environment from the options of a session.
        name: Import name of its package, or another name for it.
        version: Version of the package.
        description: One line for people.
        thread_affinity: Every call of an environment comes from the same thread.
        observables: Paths that clients may observe, beside those that an environment names.
        needs_one_thread: Tells the same of an environment that is made with some options.
        releases_gil: Tells whether most of a step's time is spent without Python's global lock,
            so that sub-environments of a vector session gain from several threads.
        waits_elsewhere: Most of a step's time is spent waiting for something outside this process,
            so that all sub-environments of a vector session are to be in their steps at once.
        native: Makes a vectorised implementation of the environment.
        multi_agent: Makes the environment for several agents; by default `factory` does.
        mode: Whether who connects controls the environment, or only calls its tools.
        tasks: What has its tasks (a `TaskProvider`); by default each environment, where it does.
        options: What environments are made with where a session does not say otherwise.
        publication: Who made it, and where there is more.
        web: Its server shows a page at ``/web``.
    """

    factory: Factory
    name: str
    version: str = "0"
    description: str = ""
    thread_affinity: bool = False
    observables: Callable[[AnyEnvironment], tuple[str, ...]] = field(default=lambda env: ())
    needs_one_thread: Callable[[dict[str, Any]], bool] = field(default=lambda options: False)
    releases_gil: Callable[[dict[str, Any]], bool] = field(default=lambda options: False)
    waits_elsewhere: bool = False
    native: NativeFactory | None = None
    multi_agent: MultiAgentFactory | None = None
    mode: Mode = field(default_factory=Mode.of_process)
    tasks: TaskProvider | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    publication: Publication = field(default_factory=Publication)
    web: bool = False

    def with_options(self, options: Mapping[str, Any]) -> Application:
        """Return an application with further options of its own.

        Raises:
            InvalidOptionError: The factory does not take one of them.
        """
        _check_known(self.factory, options)
        return replace(self, options={**self.options, **options})

    def pins(self, options: dict[str, Any]) -> bool:
        """Tell whether all calls of an environment made with these options need one thread."""
        return self.thread_affinity or self.needs_one_thread({**self.options, **options})

    def open(self, options: dict[str, Any]) -> EnvironmentHost:
        """Make an environment.

        Raises:
            InvalidOptionError: The factory does not take one of the options.
            Exception: Whatever the factory raises.
        """
        options = {**self.options, **options}
        check_options(self.factory, options)
        environment = self._make(options)
        return EnvironmentHost(environment, self.observables(environment), self.tasks)

    def _make(self, options: dict[str, Any]) -> AnyEnvironment:
        environment = self.factory(**options)
        if is_multi_agent(environment):
            environment.close()
            raise errors.InvalidOptionError(
                f"{self.name} has several agents.",
                field="multi_agent",
                hint="Use openenv_gym.pettingzoo.aec_env, parallel_env or join.",
            )
        if isinstance(environment, MCPEnvironment):
            environment.mode = self.mode
            if self.pins(options):
                environment.tool_timeout_s = None  # which would take another thread
        return environment

    def open_vector(
        self, options: dict[str, Any], vector: VectorOptions, max_threads: int = MAX_THREADS
    ) -> VectorHost:
        """Make several environments for one session.

        Raises:
            InvalidOptionError: The factory does not take one of the options, or the environment
                cannot be had in this form.
            Exception: Whatever the factory raises.
        """
        options = {**self.options, **options}
        check_options(self.factory, options)
        traits = Traits(
            self.pins(options), self.releases_gil(options), self.waits_elsewhere, max_threads
        )
        return make_vector_host(
            lambda: self._make(options), options, vector, traits, self.native, self.name
        )

    def open_multi_agent(
        self, options: dict[str, Any], wanted: MultiAgentOptions, games: Games | None
    ) -> Host:
        """Make an environment with several agents, or take a seat in a shared one.

        Raises:
            InvalidOptionError: The factory does not take one of the options, or the environment
                cannot be had in this form.
            Exception: Whatever the factory raises.
        """
        options = {**self.options, **options}
        make = self.multi_agent
        if make is None:
            check_options(self.factory, options)
            return open_multi_agent(
                lambda api: self.factory(**options),
                options,
                wanted,
                games,
                pinned=self.pins(options),
            )
        check_options(make, options, given=1)
        return open_multi_agent(
            lambda api: make(api, **options), options, wanted, games, pinned=self.pins(options)
        )

    def metadata(self) -> dict[str, Any]:
        """Return what ``GET /metadata`` answers (OpenEnv's fields)."""
        return {
            "name": self.name,
            "description": self.description or f"{self.name} environment",
            "version": self.version,
            "author": self.publication.author,
            "readme_content": self.publication.readme,
            "documentation_url": self.publication.documentation_url,
        }

    def schemas(self) -> dict[str, Any]:
        """Return what ``GET /schema`` answers, of an environment made with no options.

        Beside the schemas it has ``actions``: what ``describe_actions`` says of kinds and tools.

        The schemas are empty where none can be made without options.
        """
        try:
            host = self.open({})
        except errors.InvalidOptionError:
            return {"action": {}, "observation": {}, "state": {}}
        try:
            return {**host.typed_schemas(), "actions": host.describe_kinds()}
        finally:
            host.close()


def create_app(
    factory: Factory,
    *,
    name: str | None = None,
    version: str = "0",
    description: str = "",
    thread_affinity: bool = False,
    multi_agent: MultiAgentFactory | None = None,
) -> Application:
    """Make an application of an `Environment` class, or of any function that makes environments.

    Args:
        factory: Called with the options of each session: the keyword arguments of
            ``gymnasium.make`` that are not the client's own. Returns an `Environment` or a
            ``gymnasium.Env``.
        name: Name of the environment; by default that of the factory.
        version: Version of the environment.
        description: One line for people.
        thread_affinity: Whether all calls must come from one thread.
        multi_agent: Makes the environment for several agents, as PettingZoo has them; by default
            `factory` does.

    Raises:
        SpaceError: A model that the class names has no space; `field` says where in it. Models
            that ``__init__`` sets are looked at when an environment is made.
    """
    _check_models(factory)
    # Its own words: those of a base class say nothing about this environment.
    doc = inspect.cleandoc(getattr(factory, "__doc__", None) or "")
    summary = doc.partition("\n")[0]
    return Application(
        factory,
        name=name or str(getattr(factory, "__name__", "environment")),
        version=version,
        description=description or summary,
        thread_affinity=thread_affinity,
        multi_agent=multi_agent,
    )


def load_app(
    target: str,
    *,
    thread_affinity: bool = False,
    options: Mapping[str, Any] | None = None,
) -> Application:
    """Load the application of an environment package, of ``module:attribute``, or of the core.

    Args:
        target: ``gymnasium`` (any Gymnasium id, built in), the import name of an environment
            package with an ``openenv.yaml``, or ``package.module:attribute``.
        thread_affinity: Ask for it, whatever the application itself says.
        options: What environments are made with where a session does not say otherwise.

    Raises:
        InvalidOptionError: It does not take one of the options.
        UnknownEnvironmentError: There is no such package or attribute.
        ManifestError: Its manifest does not hold.
    """
    if target == "gymnasium":
        target = "openenv_gym.server.gymnasium_app:app"
    manifest: Manifest | None = None
    if ":" not in target:
        manifest = load_manifest(_folder(target) / "openenv.yaml")
        target = f"{target}.{manifest.app}"
    module, _, attribute = target.partition(":")
    if not module or module.startswith("."):
        raise errors.UnknownEnvironmentError(
            f"{target!r} names no module.",
            field="environment",
            hint="Expected 'gymnasium', an environment package, or module:attribute.",
        )
    try:
        imported = importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise errors.UnknownEnvironmentError(
            f"Cannot load {target}: no module named {error.name!r}.",
            field="environment",
            hint="Install the environment package and what it needs, for example with "
            "'pip install openenv-gym-NAME'.",
        ) from error
    found = getattr(imported, attribute, None)
    if not callable(found) and not isinstance(found, Application):
        what = f"is {found!r:.80}" if hasattr(imported, attribute) else "does not exist"
        raise errors.UnknownEnvironmentError(
            f"{module}:{attribute} {what}; expected an application, an Environment class, "
            "or a function that makes environments.",
            field="environment",
        )
    app = found if isinstance(found, Application) else create_app(found)
    if manifest is not None:
        app = replace(
            app,
            name=manifest.name,
            version=str(manifest.version),
            description=manifest.description or app.description,
            thread_affinity=manifest.thread_affinity or app.thread_affinity,
            publication=publication_of(manifest, _folder(target.partition(".")[0])),
        )
    if thread_affinity:
        app = replace(app, thread_affinity=True)
    return app.with_options(options) if options else app


def _folder(package: str) -> Path:
    spec = importlib.util.find_spec(package) if package.isidentifier() else None
    if spec is None or spec.origin is None:
        raise errors.UnknownEnvironmentError(
            f"No environment package {package!r} is installed here.",
            field="environment",
            hint=_what_instead(package),
        )
    if spec.submodule_search_locations is None:
        raise errors.UnknownEnvironmentError(
            f"{package} is a module, and no environment package.",
            field="environment",
            hint=f"Say what of it is to be served: {package}:NAME, an Environment class or an "
            "application.",
        )
    return Path(spec.origin).parent


def _what_instead(target: str) -> str:
    """Return a hint for a target that is no package."""
    if re.search(r"-v\d+$", target):
        return f"An id is an option: gymnasium --option env_id={target.rpartition('/')[2]}."
    if not target.isidentifier():
        return (
            "Expected 'gymnasium', an environment package such as echo_env, or module:attribute "
            "such as my_module:MyEnvironment."
        )
    if importlib.util.find_spec(f"{target}_env") is not None:
        return f"Did you mean {target}_env?"
    stem = target.removesuffix("_env")
    return (
        f"In a checkout of this library: pip install ./envs/{stem}_env; elsewhere: "
        f"pip install openenv-gym-{stem.replace('_', '-')}."
    )


def _check_models(factory: Factory) -> None:
    if isinstance(factory, type) and issubclass(factory, Environment):
        for name in ("action_model", "observation_model"):
            model = getattr(factory, name, None)
            if isinstance(model, type):
                ModelMapping.of(model)


def check_options(factory: Callable[..., Any], options: dict[str, Any], *, given: int = 0) -> None:
    """Compare options with the signature of a factory.

    Args:
        factory: What makes environments.
        options: What it is to be called with.
        given: Leading arguments that are no options.

    Raises:
        InvalidOptionError: One is unknown, or one is missing.
    """
    _check_known(factory, options, given)
    for name, parameter in list(_parameters(factory).items())[given:]:
        required = parameter.default is parameter.empty and parameter.kind in (
            parameter.POSITIONAL_OR_KEYWORD,
            parameter.KEYWORD_ONLY,
        )
        if required and name not in options:
            raise errors.InvalidOptionError(
                f"The option {name!r} is missing.", field=name, hint=f"Pass {name}=... to make()."
            )


def _check_known(factory: Callable[..., Any], options: Mapping[str, Any], given: int = 0) -> None:
    parameters = dict(list(_parameters(factory).items())[given:])
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return
    for option in options:
        if option not in parameters:
            near = difflib.get_close_matches(option, parameters, n=1)
            raise errors.InvalidOptionError(
                f"Unknown option {option!r}; there are {', '.join(parameters) or 'none'}.",
                field=option,
                hint=f"Did you mean {near[0]!r}?" if near else None,
            )


def _parameters(factory: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(factory).parameters
    except (TypeError, ValueError):  # what takes anything, for all that is known
        anything = inspect.Parameter("options", inspect.Parameter.VAR_KEYWORD)
        return {anything.name: anything}
