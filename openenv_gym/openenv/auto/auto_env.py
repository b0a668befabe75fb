"""`AutoEnv`: a client of an environment, by its name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from openenv_gym import errors
from openenv_gym.openenv.auto.classes import load_class
from openenv_gym.openenv.auto.installed import EnvironmentInfo, find_environment, find_environments
from openenv_gym.openenv.auto.names import Named, resolve
from openenv_gym.openenv.auto.places import Place, choose_place
from openenv_gym.openenv.env_client import EnvClient
from openenv_gym.openenv.generic_client import GenericEnvClient


if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["AutoEnv"]


class AutoEnv:
    """A client of an environment, by its name. There are no instances.

    ::

        with AutoEnv.from_env("echo") as client:                 # starts a server
            client.reset()
        with AutoEnv.from_env("openenv/Pong-v5") as client: ...  # an id, with its options
        with AutoEnv.from_env("user/name") as client: ...        # a Space of the Hub
        with AutoEnv.from_env("echo", base_url="http://localhost:8000") as client: ...
    """

    def __new__(cls) -> NoReturn:
        """Refuse: it is its class methods."""
        raise errors.ConfigurationError(
            "AutoEnv has no instances.", hint='Use AutoEnv.from_env("echo").'
        )

    @classmethod
    def from_env(
        cls,
        name: str,
        base_url: str | None = None,
        docker_image: str | None = None,
        container_provider: Any = None,
        wait_timeout: float = 30.0,
        env_vars: Mapping[str, str] | None = None,
        trust_remote_code: bool = False,
        skip_install: bool = False,
        **kwargs: Any,
    ) -> EnvClient[Any, Any, Any]:
        """Return a client of an environment. It connects, and starts a server, when it is used.

        The client is that of the environment's package where it is installed and has one, and
        otherwise `GenericEnvClient`, which needs none.

        Args:
            name: An environment (``echo``, ``echo-env``, ``echo_env``); an id (``openenv/Echo-v0``,
                ``openenv/CartPole-v1``), which brings its options; a Space of the Hub
                (``user/name``, or its URL), which is used where it runs; or a server's URL.
            base_url: The server, where one runs already; then the name need not be known.
            docker_image: Image to start a container of; likewise.
            container_provider: What starts the server: ``"docker"``, ``"process"``, ``"thread"``,
                a provider, or an object with OpenEnv's ``start_container``.
            wait_timeout: How long, in seconds, a Space may take to wake up, or a container of
                OpenEnv's to be ready.
            env_vars: Environment variables for `container_provider` to start a container with.
            trust_remote_code: Install the package of a Space that is not installed, which runs
                code of it, then and whenever it is imported. Without this nothing is installed.
            skip_install: Import no code of the environment: the client is `GenericEnvClient`.
            **kwargs: Arguments of the client: ``token``, ``options``, ``message_timeout_s`` ...

        Raises:
            UnknownEnvironmentError: There is no such environment.
            InvalidOptionError: Arguments that contradict each other.
            ConfigurationError: The package cannot be imported or installed.
        """
        found = resolve(
            name,
            trust_remote_code=trust_remote_code and not skip_install,
            any_name=bool(base_url or docker_image),
        )
        client = GenericEnvClient if skip_install else _client_of(found)
        place = choose_place(
            found,
            base_url=base_url,
            image=docker_image,
            provider=container_provider,
            wait_s=wait_timeout,
            env_vars=env_vars,
        )
        return _make(client, place, kwargs)

    @classmethod
    def from_hub(
        cls,
        name: str,
        base_url: str | None = None,
        docker_image: str | None = None,
        container_provider: Any = None,
        wait_timeout: float = 30.0,
        env_vars: Mapping[str, str] | None = None,
        trust_remote_code: bool = False,
        skip_install: bool = False,
        **kwargs: Any,
    ) -> EnvClient[Any, Any, Any]:
        """Do what `from_env` does; OpenEnv has both names."""
        return cls.from_env(
            name,
            base_url,
            docker_image,
            container_provider,
            wait_timeout,
            env_vars,
            trust_remote_code,
            skip_install,
            **kwargs,
        )

    @classmethod
    def get_env_class(cls, name: str) -> type[Any]:
        """Return the client of an environment; `GenericEnvClient` where no code of it is here.

        Raises:
            UnknownEnvironmentError: There is no such environment.
            ConfigurationError: Its package cannot be imported.
        """
        return _client_of(resolve(name))

    @classmethod
    def get_env_info(cls, name: str) -> dict[str, Any]:
        """Return what is known of an environment, without importing it.

        Returns:
            ``env_key``, ``name``, ``package``, ``version``, ``description``, ``env_class``,
            ``action_class``, ``observation_class``, ``module``, ``default_image`` and
            ``spec_version``, as OpenEnv has them; beside these ``ids``, the Gymnasium ids that it
            brings, and ``installed``.

        Raises:
            UnknownEnvironmentError: There is no such environment.
        """
        info = resolve(name).info or find_environment(name)
        return {
            "env_key": info.key,
            "name": info.name,
            "package": info.distribution or info.package,
            "version": info.version,
            "description": info.description,
            "env_class": info.class_name("client"),
            "action_class": info.class_name("action"),
            "observation_class": info.class_name("observation"),
            "module": info.package,
            "default_image": info.image,
            "spec_version": info.spec_version,
            "ids": list(info.ids),
            "installed": info.installed,
        }

    @classmethod
    def list_environments(cls) -> None:
        """Print the environments that are known here; imports none. See `find_environments`."""
        for key, info in find_environments().items():
            print(f"{key:<16} {info.description or info.name}")
            print(f"{'':<16} {_whereabouts(info)}")


def _whereabouts(info: EnvironmentInfo) -> str:
    ids = f"; {len(info.ids)} ids such as {info.ids[0]}" if info.ids else ""
    if info.installed:
        return f"{info.distribution or info.package} {info.version}{ids}"
    return f"not installed: pip install {info.distribution}, or its container {info.image}{ids}"


def _client_of(found: Named) -> type[Any]:
    info = found.info
    # An id may be any of many; the client of its package is made for the package's own default.
    client = None if info is None else load_class(info, "client")
    return client or GenericEnvClient


def _make(client: type[Any], place: Place, kwargs: dict[str, Any]) -> EnvClient[Any, Any, Any]:
    if place.options:
        kwargs["options"] = {**place.options, **(kwargs.get("options") or {})}
    if place.foreign and issubclass(client, EnvClient):
        # OPENENV_TOKEN is for one's own servers. (Empty: none, whatever the variable says.)
        kwargs.setdefault("token", "")
    if place.url is not None:
        made: EnvClient[Any, Any, Any] = client(base_url=place.url, **kwargs)
        return made
    if issubclass(client, EnvClient):
        return client(provider=place.launch, **kwargs)
    # A client of OpenEnv's own connects to what it is told.
    if place.locate is None:
        raise errors.InvalidOptionError(
            f"{client.__module__}.{client.__name__} is a client of OpenEnv's, which this library "
            "starts no server for.",
            field="base_url",
            hint="Pass base_url= of a server that runs already, or skip_install=True.",
        )
    made = client(base_url=place.locate(), **kwargs)
    return made
