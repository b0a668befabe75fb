"""The results of requests to several servers, in the order in which they come; one thread."""

from __future__ import annotations

import select
import time
from collections.abc import Iterator, Sequence

from openenv_gym import errors
from openenv_gym.client.connection import Connection
from openenv_gym.client.pending import Pending
from openenv_gym.protocol.messages import Result
from openenv_gym.protocol.patience import Patience


__all__ = ["gather"]

Outcome = Result | errors.OpenEnvGymError

_LOOK_S = 0.001  # as for one server, see `Transport`
_ASK_S = 1.0  # so often servers that say nothing are asked after


def gather(
    pairs: Sequence[tuple[Connection, Pending]], end_s: float, patience: Patience | None = None
) -> Iterator[tuple[int, Outcome]]:
    """Wait for several requests that were begun.

    What arrives is read at once wherever it arrives, so that no server waits for room in a socket.
    When the time is over, the iterator ends; requests without an answer stay under way.

    Args:
        pairs: Connections, each once, and each with a request.
        end_s: Until when, on the clock of `time.monotonic`.
        patience: Decides whether to look a little before sleeping; it learns, so keep one for all
            waits of a kind. Without one there is no looking.

    Yields:
        The index of a pair, and the result of its request, or the exception that `advance` raised.
    """
    if len(pairs) == 1 or not hasattr(select, "poll"):  # Windows has no poll
        yield from _one_by_one(pairs, end_s)
        return
    poll = select.poll()
    waiting: dict[int, tuple[int, int]] = {}  # by descriptor: index, and what it is polled for

    def go_on(index: int, *, ask: bool = False) -> Outcome | None:
        connection, pending = pairs[index]
        fd = -1
        try:
            while fd < 0:
                outcome = connection.advance(pending, end_s, ask=ask)
                if outcome is not None:
                    return outcome
                fd = connection.fileno()
        except errors.OpenEnvGymError as error:
            return error
        watch(fd, index, connection.unsent)
        return None

    def watch(fd: int, index: int, unsent: bool) -> None:
        events = select.POLLIN | select.POLLOUT if unsent else select.POLLIN
        if waiting.get(fd) != (index, events):
            waiting[fd] = (index, events)
            poll.register(fd, events)

    for index, (connection, pending) in enumerate(pairs):
        if pending.reply is None and not connection.holds_bytes:
            watch(connection.fileno(), index, connection.unsent)
        elif (outcome := go_on(index)) is not None:
            yield index, outcome
    while waiting:
        ready = _wait(poll, end_s, patience)
        if not ready and time.monotonic() >= end_s:
            return
        # Where nothing came for long, everybody is asked.
        for fd in ready or list(waiting):
            index, _ = waiting[fd]
            outcome = go_on(index, ask=not ready)
            if outcome is not None or pairs[index][0].fileno() != fd:  # resumed over another one
                del waiting[fd]
                poll.unregister(fd)
            if outcome is not None:
                yield index, outcome


def _wait(poll: select.poll, end_s: float, patience: Patience | None) -> list[int]:
    """Return descriptors where something is to be done; none after a while."""
    if patience is not None and patience.begin():
        while True:
            if ready := poll.poll(0):
                return [fd for fd, _ in ready]
            if not patience.again():
                break
    left_s = max(min(end_s - time.monotonic(), _ASK_S), 0.0)
    return [fd for fd, _ in poll.poll(left_s * 1000)]


def _one_by_one(
    pairs: Sequence[tuple[Connection, Pending]], end_s: float
) -> Iterator[tuple[int, Outcome]]:
    for index, (connection, pending) in enumerate(pairs):
        try:
            outcome: Outcome | None = connection.finish(pending, end_s)
        except errors.OpenEnvGymError as error:
            outcome = error
        if outcome is not None:
            yield index, outcome
