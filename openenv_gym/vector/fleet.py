"""All servers of a vector environment: a request to each at once, and their answers."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from typing import Any

from gymnasium import logger

from openenv_gym import errors
from openenv_gym.client import Pending, gather
from openenv_gym.protocol.messages import Result
from openenv_gym.protocol.patience import Patience
from openenv_gym.vector.member import LOSSES, Member


__all__ = ["Fleet", "Outcome", "raise_failures"]

Outcome = Result | errors.OpenEnvGymError

_LOOK_S = 0.001  # as for a single environment
_POLITE_S = 5.0  # so long a server that is asked to may take to end a session


class Fleet:
    """The members of a vector environment, and the request that each of them works on.

    Args:
        members: The members, in the order of their sub-environments.
        tracebacks: Where sub-environments of this process leave theirs.

    Attributes:
        members: The members.
        tracebacks: As above.
        replaceable: A member that is gone may be replaced; otherwise no other moves without it.
    """

    def __init__(self, members: Sequence[Member], tracebacks: dict[int, str] | None = None) -> None:
        self.tracebacks = {} if tracebacks is None else tracebacks
        self.members = list(members)
        self.replaceable = False
        self._pending: list[Pending | errors.OpenEnvGymError | None] = []
        self._patience = self.patience()

    def patience(self) -> Patience:
        """Return what decides about looking before sleeping, for one kind of wait.

        Where every processor has a server, looking takes one away from a server.
        """
        spare = (os.cpu_count() or 1) > len(self.members)
        return Patience(_LOOK_S if spare else 0.0)

    @property
    def timeout_s(self) -> float:
        """Limit of a request for which the caller names none."""
        return self.members[0].connection.timeout_s

    def begin(
        self,
        op: str,
        args: Sequence[list[Any] | None],
        landings: Sequence[memoryview] | None = None,
    ) -> None:
        """Send a request to each member.

        Args:
            op: Name of the operation.
            args: Its arguments for each member; None: nothing is sent to this one.
            landings: Memory for the observations of each member.

        Raises:
            OpenEnvGymError: It cannot be sent; then no member moves.
        """
        if not self.replaceable:
            self._check_all_open(op)
        pending: list[Pending | errors.OpenEnvGymError | None] = []
        try:
            for index, (member, each) in enumerate(zip(self.members, args, strict=True)):
                landing = None if landings is None else landings[index]
                try:
                    pending.append(
                        None if each is None else member.connection.begin(op, each, landing=landing)
                    )
                except LOSSES as error:
                    pending.append(error)  # the others have theirs already: it is an answer
        except BaseException:
            self._pending = pending
            self.abandon()
            raise
        self._pending = pending

    def _check_all_open(self, op: str) -> None:
        for member in self.members:
            if member.connection.closed:
                try:
                    member.connection.begin(op, [])
                except LOSSES as error:
                    raise member.name_loss(error) from None

    def wait(self, timeout_s: float | None) -> list[Outcome | None] | None:
        """Wait for all answers; None where one is late, and all are dropped when they come.

        Returns:
            For each member its answer, the error with which it failed, or None where nothing was
            asked.
        """
        end_s = time.monotonic() + (self.timeout_s if timeout_s is None else timeout_s)
        outcomes: list[Outcome | None] = []
        pairs, places = [], []
        for index, pending in enumerate(self._pending):
            outcomes.append(pending if isinstance(pending, errors.OpenEnvGymError) else None)
            if isinstance(pending, Pending):
                pairs.append((self.members[index].connection, pending))
                places.append(index)
        left = len(pairs)
        try:
            if left == 1:
                try:
                    outcome = pairs[0][0].finish(pairs[0][1], end_s)
                except errors.OpenEnvGymError as error:
                    outcomes[places[0]] = error
                    left = 0
                else:
                    outcomes[places[0]] = outcome
                    left = outcome is None
            elif left:
                for index, found in gather(pairs, end_s, self._patience):
                    outcomes[places[index]] = found
                    left -= 1
        except BaseException:
            self.abandon()
            raise
        if left:
            self.abandon()
            return None
        self._pending = []
        return outcomes

    def abandon(self) -> None:
        """Drop what was asked: answers that still come shift nothing."""
        for member, pending in zip(self.members, self._pending, strict=False):
            if isinstance(pending, Pending):
                member.connection.abandon(pending)
        self._pending = []

    def close(self, timeout_s: float | None, *, terminate: bool) -> None:
        """End all sessions at once, then stop the servers that are ours.

        Args:
            timeout_s: How long sessions may take to end, and then servers.
            terminate: Wait for no session, and without a time for no server either.
        """
        self.abandon()
        end_s = time.monotonic() + (
            0.0 if terminate else _POLITE_S if timeout_s is None else timeout_s
        )
        pairs = []
        for member in self.members:
            try:
                pairs.append((member.connection, member.connection.begin("close", [])))
            except errors.OpenEnvGymError:
                continue  # it has ended already
        if not terminate:
            for _ in gather(pairs, end_s):
                pass
        for connection, pending in pairs:
            connection.abandon(pending)
        for member in self.members:
            member.connection.forget()
        if timeout_s is None:
            timeout_s = 0.0 if terminate else _POLITE_S
        _discard(self.members, min(timeout_s, _POLITE_S))


def _discard(members: Sequence[Member], grace_s: float) -> None:
    """Stop servers, all at once: one that is stuck takes its time, and not that of the others.

    Args:
        members: Whose servers.
        grace_s: How long each of them may take to end by itself.
    """
    waits: list[threading.Thread] = []
    for member in members[1:]:
        thread = threading.Thread(
            target=member.discard, args=(0.0, grace_s), name="openenv-stop", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:  # no more threads, as at the end of the interpreter
            member.discard(0.0, grace_s)
        else:
            waits.append(thread)
    members[0].discard(0.0, grace_s)
    for thread in waits:
        thread.join()


def raise_failures(fleet: Fleet, outcomes: Sequence[Outcome | None]) -> None:
    """Raise what went wrong, if anything did: the loss of a server, or what the last one answered.

    Args:
        fleet: Whose answers they are.
        outcomes: The answers.

    Raises:
        OpenEnvGymError: ``data["indices"]`` has the sub-environments that it is about.
    """
    failed = [
        (member, outcome)
        for member, outcome in zip(fleet.members, outcomes, strict=True)
        if isinstance(outcome, errors.OpenEnvGymError)
    ]
    if not failed:
        return
    for member, error in failed:
        if isinstance(error, LOSSES):
            raise member.name_loss(error)
    indices: list[int] = []
    for member, error in failed:
        error.data["indices"] = member.named(error)
        indices += error.data["indices"]
    last = failed[-1][1]
    _log([error for _, error in failed], fleet.tracebacks)
    if indices:
        last.data["indices"] = indices
    else:
        del last.data["indices"]
    raise last


def _log(failed: Sequence[errors.OpenEnvGymError], tracebacks: dict[int, str]) -> None:
    """Log tracebacks, where sub-environments of this process or a server in debug mode have them.

    In the words of Gymnasium, which users' filters and its own tests look for, although nothing
    is shut down here: a sub-environment that raised can be used again.
    """
    found: dict[int, str] = {}
    for error in failed:
        for index in error.data["indices"]:
            trace = tracebacks.pop(index, None)
            if trace is None and index == error.data.get("index"):
                trace = error.data.get("traceback")
            if trace is not None:
                found[index] = trace
    for index, trace in found.items():
        logger.error(f"Received the following error from Worker-{index} - Shutting it down")
        logger.error(trace)
    if found:
        logger.error("Raising the last exception back to the main process.")
