"""What a server serves: a way to make environments, and facts about them."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from openenv_gym import errors
from openenv_gym.models.manifest import Manifest, load_manifest
from openenv_gym.server.environment import AnyEnvironment
from openenv_gym.server.host import EnvironmentHost
from openenv_gym.server.mcp.environment import MCPEnvironment
from openenv_gym.server.mode import Mode
from openenv_gym.server.vector.host import VectorHost
from openenv_gym.server.vector.making import Traits, make_vector_host
from openenv_gym.server.vector.native import NativeFactory
from openenv_gym.server.vector.options import VectorOptions
from openenv_gym.server.vector.partial import MAX_THREADS


__all__ = ["Application", "create_app", "load_app"]

Factory = Callable[..., AnyEnvironment]


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
        mode: Whether who connects controls the environment, or only calls its tools.
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
    mode: Mode = field(default_factory=Mode.of_process)

    def pins(self, options: dict[str, Any]) -> bool:
        """Tell whether all calls of an environment made with these options need one thread."""
        return self.thread_affinity or self.needs_one_thread(options)

    def open(self, options: dict[str, Any]) -> EnvironmentHost:
        """Make an environment.

        Raises:
            InvalidOptionError: The factory does not take one of the options.
            Exception: Whatever the factory raises.
        """
        check_options(self.factory, options)
        environment = self._make(options)
        return EnvironmentHost(environment, self.observables(environment))

    def _make(self, options: dict[str, Any]) -> AnyEnvironment:
        environment = self.factory(**options)
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
        check_options(self.factory, options)
        traits = Traits(
            self.pins(options), self.releases_gil(options), self.waits_elsewhere, max_threads
        )
        return make_vector_host(
            lambda: self._make(options), options, vector, traits, self.native, self.name
        )

    def metadata(self) -> dict[str, Any]:
        """Return what ``GET /metadata`` answers (OpenEnv's fields)."""
        return {
            "name": self.name,
            "description": self.description or f"{self.name} environment",
            "version": self.version,
            "author": None,
            "readme_content": None,
            "documentation_url": None,
        }

    def schemas(self) -> dict[str, Any]:
        """Return what ``GET /schema`` answers, of an environment made with no options.

        The schemas are empty where none can be made without options.
        """
        try:
            host = self.open({})
        except errors.InvalidOptionError:
            return {"action": {}, "observation": {}, "state": {}}
        try:
            return host.schemas()
        finally:
            host.close()


def create_app(
    factory: Factory,
    *,
    name: str | None = None,
    version: str = "0",
    description: str = "",
    thread_affinity: bool = False,
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
    """
    summary = (inspect.getdoc(factory) or "").partition("\n")[0]
    return Application(
        factory,
        name=name or str(getattr(factory, "__name__", "environment")),
        version=version,
        description=description or summary,
        thread_affinity=thread_affinity,
    )


def load_app(target: str, *, thread_affinity: bool = False) -> Application:
    """Load the application of an environment package, of ``module:attribute``, or of the core.

    Args:
        target: ``gymnasium`` (any Gymnasium id, built in), the import name of an environment
            package with an ``openenv.yaml``, or ``package.module:attribute``.
        thread_affinity: Ask for it, whatever the application itself says.

    Raises:
        UnknownEnvironmentError: There is no such package or attribute.
        ManifestError: Its manifest does not hold.
    """
    if target == "gymnasium":
        target = "openenv_gym.server.gymnasium_app:app"
    manifest: Manifest | None = None
    if ":" not in target:
        manifest = _manifest(target)
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
        )
    return replace(app, thread_affinity=True) if thread_affinity else app


def _manifest(package: str) -> Manifest:
    spec = importlib.util.find_spec(package) if package.isidentifier() else None
    if spec is None or spec.origin is None:
        raise errors.UnknownEnvironmentError(
            f"No environment package {package!r} is installed here.",
            field="environment",
            hint=f"pip install openenv-gym-{package.removesuffix('_env').replace('_', '-')}",
        )
    return load_manifest(Path(spec.origin).parent / "openenv.yaml")


def check_options(factory: Factory, options: dict[str, Any]) -> None:
    """Compare options with the signature of a factory.

    Raises:
        InvalidOptionError: One is unknown, or one is missing.
    """
    try:
        signature = inspect.signature(factory)
    except (TypeError, ValueError):
        return
    parameters = signature.parameters
    if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        for option in options:
            if option not in parameters:
                near = difflib.get_close_matches(option, parameters, n=1)
                raise errors.InvalidOptionError(
                    f"Unknown option {option!r}; there are {', '.join(parameters) or 'none'}.",
                    field=option,
                    hint=f"Did you mean {near[0]!r}?" if near else None,
                )
    for name, parameter in parameters.items():
        required = parameter.default is parameter.empty and parameter.kind in (
            parameter.POSITIONAL_OR_KEYWORD,
            parameter.KEYWORD_ONLY,
        )
        if required and name not in options:
            raise errors.InvalidOptionError(
                f"The option {name!r} is missing.", field=name, hint=f"Pass {name}=... to make()."
            )
