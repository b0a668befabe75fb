"""`EnvClient`: OpenEnv's client, asynchronous first."""

from __future__ import annotations

import asyncio
import copy
import os
import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from pydantic import BaseModel

from openenv_gym import errors
from openenv_gym.client.address import parse_base_url
from openenv_gym.client.link import seconds
from openenv_gym.client.web_socket import WebSocketOptions
from openenv_gym.credentials import token_of_process
from openenv_gym.models import State, StepResult
from openenv_gym.openenv.calls import awaitable
from openenv_gym.openenv.channels import Wire, check_wire
from openenv_gym.openenv.launching import Starting, as_launch, launch_image, launch_package
from openenv_gym.openenv.parsing import action_to_payload, parse_model, parse_result
from openenv_gym.openenv.server_link import LinkOptions, ServerLink


if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from openenv_gym.openenv.sync_client import SyncEnvClient
    from openenv_gym.providers import Provider

__all__ = ["EnvClient"]

ActT = TypeVar("ActT")
ObsT = TypeVar("ObsT")
StateT = TypeVar("StateT")

_MODES = ("simulation", "production")


class EnvClient(Generic[ActT, ObsT, StateT]):
    """A client of one session, with one environment, on a server of ours or of OpenEnv.

    ::

        async with EchoEnv(base_url="http://localhost:8000") as client:
            result = await client.reset()
            result = await client.step(EchoAction(message="Hi"))

        with EchoEnv(base_url="http://localhost:8000").sync() as client:
            result = client.reset()

    A subclass names its models; where it needs more, it overrides `_step_payload`,
    `_parse_result` and `_parse_state`. Without models, actions and observations are dictionaries.

    The first call connects. Tasks may share a client: their calls run in the order in which they
    were made. A client belongs to the event loop in which it was connected.

    Attributes:
        action_model: Model of what `step` takes.
        observation_model: Model of what `reset` and `step` return.
        state_model: Model of what `state` returns.

    Args:
        base_url: Where the server is: ``http``, ``https``, ``ws``, ``wss`` or ``unix``.
        connect_timeout_s: Limit of connecting.
        message_timeout_s: Limit of each call.
        max_message_size_mb: Largest message that is taken, in MiB.
        websocket_ping_interval_s: How often a ping asks whether the server is there; None: never.
        websocket_ping_timeout_s: How long it may take to answer; None: for ever.
        provider: Starts the server where there is no `base_url`; see `as_launch`.
        mode: ``"simulation"``, or ``"production"``, in which an agent has tools and no control of
            the simulation (`MCPToolClient`); None reads ``OPENENV_CLIENT_MODE``.
        headers: Further headers of the opening request.
        token: Credential, sent as bearer token; where neither this nor a header ``Authorization``
            is given, ``OPENENV_TOKEN``, or what is in the file that ``OPENENV_TOKEN_FILE`` names.
        protocol: ``"auto"``: the binary protocol of this library where the server speaks it, else
            OpenEnv's JSON; ``"binary"`` and ``"json"`` insist.
        options: What the environment is made with; only the binary protocol carries that.
        ssl_context: For ``https`` and ``wss``, where `ca_file` does not say enough.
        ca_file: Certificates that are trusted in place of the system's; by default the file that
            ``OPENENV_CA_FILE`` names.

    Raises:
        InvalidOptionError: One of them is not taken; `field` names it.
    """

    action_model: ClassVar[type[BaseModel] | None] = None
    observation_model: ClassVar[type[BaseModel] | None] = None
    state_model: ClassVar[type[BaseModel] | None] = State

    def __init__(
        self,
        base_url: str | None = None,
        connect_timeout_s: float = 10.0,
        message_timeout_s: float = 60.0,
        max_message_size_mb: float = 100.0,
        websocket_ping_interval_s: float | None = 20.0,
        websocket_ping_timeout_s: float | None = 20.0,
        provider: Any = None,
        mode: str | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        token: str | None = None,
        protocol: Wire = "auto",
        options: Mapping[str, Any] | None = None,
        ssl_context: ssl.SSLContext | None = None,
        ca_file: str | os.PathLike[str] | None = None,
    ) -> None:
        if base_url is None and provider is None:
            raise errors.InvalidOptionError(
                f"{type(self).__name__} has no server.",
                field="base_url",
                hint='Pass base_url="http://host:port", or use from_env() or from_docker_image().',
            )
        given = dict(headers or {})
        if token is None and not any(name.lower() == "authorization" for name in given):
            token = token_of_process()
        socket = WebSocketOptions(
            headers=given,
            token=token,
            ssl_context=ssl_context,
            connect_timeout_s=seconds("connect_timeout_s", connect_timeout_s),
            ping_interval_s=_optional("websocket_ping_interval_s", websocket_ping_interval_s),
            ping_timeout_s=_optional("websocket_ping_timeout_s", websocket_ping_timeout_s),
            max_message_bytes=_mebibytes("max_message_size_mb", max_message_size_mb),
        )
        self._mode = _checked_mode(mode)
        link_options = LinkOptions(
            socket,
            protocol=check_wire(protocol),
            mode=self._mode,
            environment=dict(options or {}),
            message_timeout_s=seconds("message_timeout_s", message_timeout_s),
        )
        self._base_url = None if base_url is None else str(base_url).rstrip("/")
        if base_url is not None:
            self._link = ServerLink(link_options, parse_base_url(base_url, ca_file=ca_file))
        else:
            self._link = ServerLink(link_options, launch=as_launch(provider))
        self._children: list[EnvClient[ActT, ObsT, StateT]] = []

    @property
    def base_url(self) -> str | None:
        """Where the server is; None while it is still to be started, or has no URL."""
        return self._base_url

    @property
    def mode(self) -> str:
        """``"simulation"`` or ``"production"``."""
        return self._mode

    # -- for subclasses -----------------------------------------------------------------------

    def _step_payload(self, action: ActT) -> dict[str, Any]:
        """Return the fields of an action, as they are sent."""
        return action_to_payload(action, self.action_model)

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[ObsT]:
        """Return what a server's answer to `reset` or `step` stands for."""
        return parse_result(payload, self.observation_model)

    def _parse_state(self, payload: dict[str, Any]) -> StateT:
        """Return what a server's answer to `state` stands for."""
        if self.state_model is None:
            return payload  # type: ignore[return-value]  # the StateT of who names no model
        return parse_model(payload, self.state_model, "state")  # type: ignore[return-value]

    # -- episodes -----------------------------------------------------------------------------

    @awaitable
    async def reset(self, **kwargs: Any) -> StepResult[ObsT]:
        """Begin a new episode; where the session was lost, in a new one.

        Args:
            **kwargs: ``seed``, ``episode_id``, and whatever the environment's own `reset` takes.

        Raises:
            OpenEnvGymError: As `step`.
        """
        channel = await self._link.channel("reset", anew=True)
        return self._parse_result(await channel.reset(kwargs))

    @awaitable
    async def step(self, action: ActT, timeout_s: float | None = None) -> StepResult[ObsT]:
        """Take one step.

        Args:
            action: An instance of the action model, or a mapping of its fields.
            timeout_s: Limit of this step, in place of ``message_timeout_s``. Over the binary
                protocol the environment hears of it, too.

        Raises:
            InvalidActionError: The environment does not take this action.
            EnvironmentFailedError: The environment raised an exception.
            DeadlineExceededError: No answer came in time; the session stays usable.
            CapacityError: The server has no free place.
            ConnectionLostError: The server is gone, and the session with it.
            SessionError: The session has ended.
            ProtocolError: The server sent something else than it should have.
        """
        payload = self._step_payload(action)
        channel = await self._link.channel("step")
        return self._parse_result(await channel.step(payload, timeout_s))

    @awaitable
    async def state(self) -> StateT:
        """Return what the environment tells about itself.

        Raises:
            OpenEnvGymError: As `step`.
        """
        channel = await self._link.channel("state")
        return self._parse_state(await channel.state())

    @awaitable
    async def describe_actions(self) -> dict[str, Any]:
        """Return what an agent is told about the actions (docs/discovery.md).

        Returns:
            Plain JSON data. ``actions``: of each kind ``name``, ``description``, ``schema`` (JSON
            Schema) and ``fields`` (type, bounds, labels ... of each); ``tools``: of each ``name``,
            ``description`` and ``input_schema``; ``legal``: the actions that are legal now, by
            field, or None where all of the space are, as far as anybody says.

        Raises:
            OpenEnvGymError: As `step`.
        """
        channel = await self._link.channel("describe_actions")
        return await channel.describe_actions()

    @awaitable
    async def save_state(self) -> Any:
        """Return plain data from which `restore_state` makes the present state (docs/branching.md).

        Raises:
            ConfigurationError: The session speaks OpenEnv's JSON, which has no such message.
            OpenEnvGymError: As `step`.
        """
        return await (await self._link.channel("save_state")).save_state()

    @awaitable
    async def restore_state(self, saved: Any) -> None:
        """Return to a state that `save_state` returned; raises what it raises."""
        await (await self._link.channel("restore_state")).restore_state(saved)

    # -- sessions -----------------------------------------------------------------------------

    @awaitable
    async def connect(self) -> Self:
        """Open a session, after starting the server where that is this client's; return `self`.

        Where one is open already, nothing happens.

        Raises:
            ServerUnreachableError: Nothing answers.
            NotAnOpenEnvServerError: Something else answers.
            UnauthorizedError: The server wants a token, or another one.
            OpenEnvGymError: The server does not start, or opens no session.
        """
        await self._link.connect()
        return self

    @awaitable
    async def disconnect(self) -> None:
        """End the session; the server, where it is this client's, runs on."""
        await self._link.disconnect("It was disconnected.")

    @awaitable
    async def close(self) -> None:
        """End the session, those of `new_session`, and the server where it is this client's.

        Safe to repeat.
        """
        children, self._children = self._children, []
        try:
            await asyncio.gather(*(child.close() for child in children), return_exceptions=True)
            await self._link.disconnect("It was closed.")
        finally:
            await self._link.stop_server()

    @awaitable
    async def new_session(self) -> Self:
        """Return another client, connected to the same server; `close` ends its session, too."""
        await self._link.channel("new_session")
        child = copy.copy(self)
        child._link, child._children = self._link.sibling(), []
        await child.connect()
        try:
            await self._link.channel("new_session")  # which may have been closed meanwhile
        except BaseException:
            await child.close()
            raise
        self._children.append(child)
        return child

    def sync(self) -> SyncEnvClient[ActT, ObsT, StateT]:
        """Return the blocking client of this one: the same methods, without ``await``."""
        from openenv_gym.openenv.sync_client import SyncEnvClient

        return SyncEnvClient(self)

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def __enter__(self) -> SyncEnvClient[ActT, ObsT, StateT]:
        return self.sync().__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.sync().close()

    def __repr__(self) -> str:
        where = self._base_url or self._link.address or "a server to be started"
        return f"<{type(self).__name__} of {where}>"

    # -- servers ------------------------------------------------------------------------------

    @classmethod
    def from_docker_image(
        cls, image: str, provider: str | Provider | None = None, **kwargs: Any
    ) -> Starting[Self]:
        """Start a container of an image of this library; await the result, or take its `sync`.

        The container has no network, and is removed when the client is closed.

        Args:
            image: Name of the image.
            provider: Starts it; ``"docker"`` by default.
            **kwargs: Arguments of the client.

        Raises:
            ImageError: When it is awaited: the image holds no environment of this library.
            ProviderError: When it is awaited: the container cannot be started.
        """
        launch = launch_image(image, provider)
        return Starting(lambda: cls(provider=launch, **kwargs), f"{cls.__name__}.from_docker_image")

    @classmethod
    def from_env(
        cls,
        name: str,
        *,
        use_docker: bool | None = None,
        provider: str | Provider | None = None,
        **kwargs: Any,
    ) -> Starting[Self]:
        """Start a server of an environment that is installed; await the result, or take its `sync`.

        Args:
            name: ``echo_env``, ``openenv/echo-env`` or ``openenv/Echo-v0``.
            use_docker: Insist on a container, or on a process.
            provider: Where it runs: ``"auto"``, ``"docker"``, ``"process"``, ``"thread"``, or a
                provider.
            **kwargs: Arguments of the client.

        Raises:
            UnknownEnvironmentError: When it is awaited: it is not installed.
            ProviderError: When it is awaited: the server cannot be started.
        """
        launch = launch_package(name, provider, use_docker)
        return Starting(lambda: cls(provider=launch, **kwargs), f"{cls.__name__}.from_env")


def _optional(name: str, value: float | None) -> float | None:
    return None if value is None else seconds(name, value)


def _mebibytes(name: str, value: Any) -> int:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 < value <= 1 << 20:
        raise errors.InvalidOptionError(
            f"{name}={value!r:.80}: expected a number of MiB above 0.", field=name
        )
    return int(value * (1 << 20))


def _checked_mode(mode: str | None) -> str:
    chosen = (mode or os.environ.get("OPENENV_CLIENT_MODE") or "simulation").lower()
    if chosen not in _MODES:
        raise errors.InvalidOptionError(
            f"mode={chosen!r:.80}: expected one of {', '.join(map(repr, _MODES))}.", field="mode"
        )
    return chosen
