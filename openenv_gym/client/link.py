"""The link to a session's server: opened, resumed when it breaks, and dropped."""

from __future__ import annotations

import functools
import math
import numbers
import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium

from openenv_gym import errors
from openenv_gym._version import __version__
from openenv_gym.client.address import Address, Loss, no_log, not_lost
from openenv_gym.client.pending import Pending
from openenv_gym.client.shared_memory import FEATURES, share_memory
from openenv_gym.client.transport import Transport, encode_message
from openenv_gym.protocol.client_session import ClientSession, ClientState
from openenv_gym.protocol.limits import SHARED_MEMORY, Limits
from openenv_gym.protocol.messages import Failure, Share, error_from_wire
from openenv_gym.spaces import space_from_data


__all__ = ["Link", "seconds"]

_AGENT = f"openenv-gym/{__version__}"
_CONNECT_S = 10.0
_MAX_S = 1e6
_WORTH_SHARING_BYTES = 16 << 10  # smaller observations go through a socket about as fast
_RETRY_S = (0.0, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


class Link:
    """What `Connection` stands on: the session, and the transport of the moment.

    Its arguments and attributes are those of `Connection`.
    """

    def __init__(
        self,
        address: Address,
        options: dict[str, Any],
        *,
        package: str | None = None,
        token: str | None = None,
        vector: dict[str, Any] | None = None,
        multi_agent: dict[str, Any] | None = None,
        wait_s: float = 0.0,
        timeout_s: float = 120.0,
        connect_timeout_s: float | None = None,
        max_frame_bytes: int = Limits.max_frame_bytes,
        why_lost: Loss = not_lost,
        log_tail: Callable[[], str] = no_log,
    ) -> None:
        self._timeout_s = seconds("timeout_s", timeout_s)
        wait_s = seconds("wait_s", wait_s, zero=True)
        self._connect_timeout_s = (
            min(_CONNECT_S, self._timeout_s)
            if connect_timeout_s is None
            else seconds("connect_timeout_s", connect_timeout_s)
        )
        self.frames_sent = 0
        self.on_extras: Callable[[dict[str, Any]], None] | None = None
        self._address = address
        self._headers: Mapping[str, str] = {"Authorization": f"Bearer {token}"} if token else {}
        self._why_lost = why_lost
        self._log_tail = log_tail
        # A signal handler may come back here in the thread that is in a request: `_busy` tells.
        self._lock = threading.RLock()
        self._busy = False
        opening: dict[str, Any] = {"options": options, "wait_s": wait_s}
        if package is not None:
            opening["package"] = package
        if vector is not None:
            opening["vector"] = vector
        if multi_agent is not None:
            opening["multi_agent"] = multi_agent
        self._session = ClientSession(
            _AGENT, opening, max_frame_bytes=max_frame_bytes, features=FEATURES
        )
        self._transport: Transport | None = None
        self._memory: memoryview | None = None
        self._awaited: dict[int, Pending] = {}  # requests that somebody will come back for
        self._connect(self._timeout_s + wait_s, self._connect_timeout_s)
        self._share(_largest_batch_bytes(self.environment))

    @property
    def environment(self) -> dict[str, Any]:
        """The map ``environment`` of WELCOME."""
        return self._session.environment

    @property
    def address(self) -> Address:
        """Where the server is."""
        return self._address

    @property
    def session_name(self) -> str:
        """Public name of the session."""
        return self._session.name

    @property
    def timeout_s(self) -> float:
        """Limit of each request, in seconds."""
        return self._timeout_s

    @property
    def closed(self) -> bool:
        """The session has ended."""
        return self._session.state is ClientState.CLOSED

    # -- connections --------------------------------------------------------------------------

    def _share(self, batch_bytes: int) -> None:
        """Let the server leave observations in memory that both have mapped, where that pays.

        Where it cannot be done, they go through the socket, as all that does not fit.

        Args:
            batch_bytes: Size of what a step returns as observations.
        """
        transport, session = self._transport, self._session
        if (
            SHARED_MEMORY not in session.shared_features
            or transport is None
            or not transport.local
            or batch_bytes < _WORTH_SHARING_BYTES
        ):
            return
        size_bytes = min(batch_bytes * 9 // 8 + _WORTH_SHARING_BYTES, session.max_frame_bytes)
        try:
            memory = share_memory(size_bytes)
        except OSError:
            return
        try:
            # Even where this fails halfway the server may have it, and use it.
            self._memory = memory.view
            transport.send_with(encode_message(Share(size_bytes).to_wire()), memory.descriptor)
        except OSError:
            pass  # what broke the connection shows in the first request
        finally:
            os.close(memory.descriptor)

    def _connect(self, timeout_s: float, connect_timeout_s: float) -> None:
        """Open a connection and the session, or take the session up again."""
        session = self._session
        transport = Transport(
            self._address,
            headers=self._headers,
            timeout_s=connect_timeout_s,
            max_frame_bytes=session.max_frame_bytes,
            why_lost=functools.partial(_why_no_more, session, self._why_lost),
        )
        try:
            transport.send(encode_message(session.hello()))
            again = session.welcome(transport.receive_message(timeout_s))
            for frame in again:
                transport.send(frame, timeout_s)
        except errors.OpenEnvGymError:
            transport.close(polite=False)
            raise
        except TimeoutError as error:
            transport.close(polite=False)
            raise errors.DeadlineExceededError(
                f"The server at {self._address} did not make the environment in {timeout_s:g} s."
            ) from error
        except OSError as error:
            transport.close(polite=False)
            raise errors.ServerUnreachableError(
                f"The server at {self._address} broke the connection off: {error}."
            ) from error
        except BaseException:
            transport.close(polite=False)
            raise
        self._transport = transport

    def _reconnect(self, end_s: float) -> None:
        """Resume the session, trying for a while.

        Raises:
            ConnectionLostError: Nobody answers.
            SessionClosedError: It was closed meanwhile.
        """
        session = self._session
        end_s = min(end_s, time.monotonic() + self._connect_timeout_s)
        attempt = 0
        while True:
            session.check_open("go on")
            try:
                left_s = max(end_s - time.monotonic(), 0.5)
                self._connect(left_s, left_s)
                return
            except (errors.ServerUnreachableError, errors.DeadlineExceededError) as error:
                lost = self._why_lost()
                gone = session.going_away is not None and isinstance(
                    error.__cause__, (FileNotFoundError, ConnectionRefusedError)
                )
                wait_s = _RETRY_S[min(attempt, len(_RETRY_S) - 1)]
                if lost is None and not gone and time.monotonic() + wait_s < end_s:
                    time.sleep(wait_s)
                    attempt += 1
                    continue
                if lost is None:
                    lost = errors.ConnectionLostError(
                        f"The connection to {self._address} broke and cannot be resumed: {error}",
                        hint="Make a new environment.",
                    )
                if (reloaded := session.reloaded()) is not None:
                    session.close(reloaded.message)
                    raise reloaded from error
                if session.going_away is not None:
                    lost.message += f" Before, the server said that it stops: {session.going_away}."
                raise lost from error

    def _error_of(self, reply: Failure) -> errors.OpenEnvGymError:
        """Return what the server answered, with its last lines where it ran into a limit."""
        error = error_from_wire(reply.error)
        if isinstance(error, errors.LimitReachedError) and (log := self._log_tail()):
            error.data["log"] = log
        return error

    def _drop(self) -> None:
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.close(polite=False)
        self._session.lost()

    def _ask_why_lost(self) -> errors.ConnectionLostError | None:
        """Tell whether there is nothing more to wait for.

        Raises:
            SessionClosedError: The session was closed meanwhile.
        """
        return _why_no_more(self._session, self._why_lost)


def _why_no_more(session: ClientSession, why_lost: Loss) -> errors.ConnectionLostError | None:
    """Tell a transport whether to wait on; bound to the session only, so that no cycle arises."""
    session.check_open("go on")
    return why_lost()


def _largest_batch_bytes(environment: Mapping[str, Any]) -> int:
    """Return how much the observations of one step take, for all sub-environments of a session."""
    many = environment.get("multi_agent")
    if many:
        return _bytes_of_agents(many)
    try:
        space = space_from_data(environment["observation_space"])
    except errors.SpaceError:  # which whoever needs the space will say
        return 0
    vector = environment.get("vector") or {}
    num_envs = vector.get("num_envs", 1)
    return _sample_bytes(space) * (num_envs if type(num_envs) is int else 1)


def _bytes_of_agents(many: dict[str, Any]) -> int:
    """Return how much the observations of all agents take."""
    spaces, num_envs = many.get("spaces"), many.get("num_envs")
    try:
        each = [_sample_bytes(space_from_data(pair[0])) for pair in (spaces or {}).values()]
    except (errors.SpaceError, AttributeError, IndexError, TypeError, KeyError):
        return 0  # which whoever needs the spaces will say
    return sum(each) * (num_envs if type(num_envs) is int else 1)


def _sample_bytes(space: gymnasium.Space[Any]) -> int:
    if isinstance(space, gymnasium.spaces.Dict):
        return sum(map(_sample_bytes, space.spaces.values()))
    if isinstance(space, gymnasium.spaces.Tuple):
        return sum(map(_sample_bytes, space.spaces))
    if space.shape is None or space.dtype is None:
        return 0
    return math.prod(space.shape) * space.dtype.itemsize


def seconds(name: str, value: Any, *, zero: bool = False) -> float:
    """Check a limit.

    Raises:
        InvalidOptionError: It is none.
    """
    number = not isinstance(value, bool) and isinstance(value, numbers.Real)
    if number and (0 < value <= _MAX_S or (zero and value == 0)):  # false for nan
        return float(value)
    raise errors.InvalidOptionError(
        f"{name} is {value!r:.80}, expected a finite number of seconds, "
        f"{'at least' if zero else 'above'} 0 and at most {_MAX_S:g}.",
        field=name,
    )
