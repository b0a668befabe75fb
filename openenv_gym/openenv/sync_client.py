"""`SyncEnvClient`: the blocking side of `EnvClient`."""

from __future__ import annotations

import functools
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from openenv_gym.client.background import run_blocking
from openenv_gym.models import StepResult


if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from openenv_gym.openenv.env_client import EnvClient

__all__ = ["SyncEnvClient"]

ActT = TypeVar("ActT")
ObsT = TypeVar("ObsT")
StateT = TypeVar("StateT")


class SyncEnvClient(Generic[ActT, ObsT, StateT]):
    """The methods of a client, each of which waits for its result.

    It works in scripts, in threads, and in notebooks whose own event loop runs. All blocking
    clients of a process share one thread, in which the asynchronous ones run. Methods that a
    subclass of the client adds are found here, too.

    Args:
        client: The asynchronous client; it is used through this one from now on.
    """

    def __init__(self, client: EnvClient[ActT, ObsT, StateT]) -> None:
        self._client = client

    @property
    def async_client(self) -> EnvClient[ActT, ObsT, StateT]:
        """The asynchronous client."""
        return self._client

    def connect(self) -> Self:
        """Open a session; see `EnvClient.connect`."""
        run_blocking(self._client.connect())
        return self

    def disconnect(self) -> None:
        """End the session; see `EnvClient.disconnect`."""
        run_blocking(self._client.disconnect())

    def reset(self, **kwargs: Any) -> StepResult[ObsT]:
        """Begin a new episode; see `EnvClient.reset`."""
        return run_blocking(self._client.reset(**kwargs))

    def step(self, action: ActT, timeout_s: float | None = None) -> StepResult[ObsT]:
        """Take one step; see `EnvClient.step`."""
        return run_blocking(self._client.step(action, timeout_s))

    def state(self) -> StateT:
        """Return what the environment tells about itself; see `EnvClient.state`."""
        return run_blocking(self._client.state())

    def describe_actions(self) -> dict[str, Any]:
        """Return what an agent is told; see `EnvClient.describe_actions`."""
        return run_blocking(self._client.describe_actions())

    def close(self) -> None:
        """End the session and what belongs to it; see `EnvClient.close`."""
        run_blocking(self._client.close())

    def new_session(self) -> SyncEnvClient[ActT, ObsT, StateT]:
        """Return another blocking client, connected to the same server."""
        return run_blocking(self._client.new_session()).sync()

    def sync(self) -> Self:
        """Return this client: it is the blocking one."""
        return self

    def __enter__(self) -> Self:
        return self.connect()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __getattr__(self, name: str) -> Any:
        if name == "_client":  # which a copy or a pickle has not got yet
            raise AttributeError(name)
        found = getattr(self._client, name)
        if not callable(found):
            return found

        @functools.wraps(found)
        def blocking(*args: Any, **kwargs: Any) -> Any:
            value = found(*args, **kwargs)
            return run_blocking(value) if isinstance(value, Coroutine) else value

        return blocking

    def __repr__(self) -> str:
        return f"<blocking {self._client!r}>"
