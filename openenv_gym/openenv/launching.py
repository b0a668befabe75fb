"""Servers that a client starts for itself, and handles for clients that have none yet."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from openenv_gym import errors
from openenv_gym.client.address import Address, parse_base_url
from openenv_gym.client.background import run_blocking
from openenv_gym.openenv.calls import Call


if TYPE_CHECKING:
    from types import TracebackType

    from openenv_gym.openenv.env_client import EnvClient
    from openenv_gym.openenv.sync_client import SyncEnvClient
    from openenv_gym.providers import Provider, RunningServer

__all__ = ["Launch", "Starting", "as_launch", "launch_image", "launch_package"]

ClientT = TypeVar("ClientT", bound="EnvClient[Any, Any, Any]")

Launch = Callable[[], "RunningServer"]
"""Starts a server. It blocks, and so runs in a thread."""


class Starting(Call[ClientT], Generic[ClientT]):
    """A client whose server is still to be started: await it, or take `sync`.

    ::

        client = await EchoEnv.from_env("echo_env")
        client = EchoEnv.from_env("echo_env").sync()
        async with EchoEnv.from_env("echo_env") as client: ...
        with EchoEnv.from_env("echo_env") as client: ...  # the blocking one, as of a client

    Nothing happens before. Like a coroutine it can be used once.
    """

    def __init__(self, make: Callable[[], ClientT], name: str) -> None:
        self._make = make
        self._client: ClientT | None = None
        super().__init__(self._start(), name)

    async def _start(self) -> ClientT:
        client = self._client = self._make()
        try:
            await client.connect()
        except BaseException:
            await client.close()
            raise
        return client

    def sync(self) -> SyncEnvClient[Any, Any, Any]:
        """Start the server, and return a blocking client that is connected to it."""
        return run_blocking(self).sync()

    @property
    def _hint(self) -> str:
        return (
            f"Write `await {self._name}(...)`; where there is no `async def`, take the blocking "
            f"client: `{self._name}(...).sync()`."
        )

    def __enter__(self) -> SyncEnvClient[Any, Any, Any]:
        return self.sync()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._client is not None:
            run_blocking(self._client.close())

    async def __aenter__(self) -> ClientT:
        return await self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._client is not None:
            await self._client.close()


def launch_image(image: str, provider: str | Provider | None) -> Launch:
    """Return what starts a container of an image of this library.

    Args:
        image: Its name.
        provider: Starts it; ``"docker"`` by default.
    """

    def launch() -> RunningServer:
        from openenv_gym.providers import DockerProvider, ServerTarget, get_provider
        from openenv_gym.providers.docker.daemon import connect_daemon, translated
        from openenv_gym.providers.docker.images import image_package

        with translated(f"look for {image}", image):
            package = image_package(connect_daemon(), image)
        if package is None:
            raise errors.ImageError(
                f"The image {image} holds no environment of this library: it does not say which "
                "one it is.",
                hint="An OpenEnv image can be run by hand, `docker run -p 127.0.0.1:8000:8000 "
                f'{image}`, and reached with base_url="http://127.0.0.1:8000".',
                data={"image": image},
            )
        # Whoever names an image means that one, and no other that would be built in its place.
        chosen = provider if provider not in (None, "docker") else DockerProvider(build="never")
        return get_provider(chosen).start(ServerTarget(package, image=image))

    return launch


def launch_package(
    name: str, provider: str | Provider | None, use_docker: bool | None = None
) -> Launch:
    """Return what starts a server of an environment package that is installed or built in.

    Args:
        name: ``echo_env``, ``echo-env``, or with an owner before it as on the Hub
            (``openenv/echo-env``), which is ignored; or an id: ``openenv/Echo-v0``.
        provider: Where it runs; see `gymnasium.make` with our ids.
        use_docker: Insist on a container, or on a process; None leaves it to `provider`.

    Raises:
        InvalidOptionError: `provider` and `use_docker` are both given.
    """
    if use_docker is not None:
        if provider is not None:
            raise errors.InvalidOptionError(
                "provider and use_docker both say where the server runs.", field="use_docker"
            )
        provider = "docker" if use_docker else "process"

    def launch() -> RunningServer:
        from openenv_gym.registration.starting import start

        return start(_entry_of(name), provider)

    return launch


def _entry_of(name: str) -> Any:
    """Return a catalogue entry of a package, by one of its names or by one of its ids."""
    from openenv_gym.registration import known_environments, lookup

    package = name.rpartition("/")[2].replace("-", "_")
    entries = [e for e in known_environments().values() if e.package and e.package != "gymnasium"]
    for entry in entries:
        if package in (entry.package, f"{entry.package}".removesuffix("_env")):
            return entry
    try:
        return lookup(name)
    except errors.UnknownEnvironmentError as error:
        known = sorted({str(entry.package) for entry in entries})
        raise errors.UnknownEnvironmentError(
            f"There is no environment {name!r} here, only {', '.join(known)}.",
            field="name",
            hint="Install its package. Nothing is fetched from the Hub by itself.",
        ) from error


def as_launch(provider: Any) -> Launch:
    """Return what starts the server of a provider that a client was given.

    Args:
        provider: A callable that returns a `RunningServer`, or an object with OpenEnv's methods:
            ``start_container()`` or ``start()``, ``wait_for_ready()``, and ``stop_container()`` or
            ``stop()``.

    Raises:
        InvalidOptionError: It is neither.
    """
    for start, stop in (("start_container", "stop_container"), ("start", "stop")):
        if hasattr(provider, start) and hasattr(provider, stop):
            return lambda start=start, stop=stop: ForeignServer(provider, start, stop)  # type: ignore[misc]
    if callable(provider):
        launch: Launch = provider
        return launch
    raise errors.InvalidOptionError(
        f"provider={provider!r:.80} starts no server.",
        field="provider",
        hint="Pass base_url=, or use from_env() or from_docker_image().",
    )


class ForeignServer:
    """A server that an object with OpenEnv's methods has started; a `RunningServer`."""

    token: str | None = None

    def __init__(self, provider: Any, start: str, stop: str) -> None:
        self._stop = getattr(provider, stop)
        self._stopped = False
        try:
            self._url = str(getattr(provider, start)())
            if start == "start_container":
                provider.wait_for_ready(self._url)
            else:
                provider.wait_for_ready()
            self._address = parse_base_url(self._url)
        except BaseException:
            self.stop()
            raise

    @property
    def address(self) -> Address:
        """Where it is."""
        return self._address

    def why_lost(self) -> errors.ConnectionLostError | None:
        """Tell why it is gone: nobody watches it, so this is never known."""
        return None

    def log_tail(self) -> str:
        """Return nothing: its log is its provider's."""
        return ""

    def stop(self, grace_s: float = 5.0) -> None:
        """Stop it; safe to repeat."""
        if not self._stopped:
            self._stopped = True
            self._stop()
