"""Steps of some sub-environments, each on its own, across servers."""

from __future__ import annotations

import multiprocessing
import time
from collections import deque
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from gymnasium.error import AlreadyPendingCallError, NoAsyncCallError

from openenv_gym import errors
from openenv_gym.client import Pending, gather
from openenv_gym.protocol.codec import encode_packet
from openenv_gym.server.vector.failures import reset_needed
from openenv_gym.vector.arguments import ranges, read_env_ids
from openenv_gym.vector.batches import Batches
from openenv_gym.vector.fleet import Fleet, raise_failures
from openenv_gym.vector.infos import merge_infos, with_masks
from openenv_gym.vector.last import LastObservations
from openenv_gym.vector.member import LOSSES
from openenv_gym.vector.recovery import Recovery


__all__ = ["PartialBatch", "PartialSteps"]

_SHORT_S, _SHARE = 0.005, 0.25  # see `_patience_of_server`
_MOST_SENDS = 16  # a server takes 64 requests without having answered the first


class PartialBatch(NamedTuple):
    """Steps of some sub-environments, in the order in which they ended.

    Attributes:
        observations: A batch with one for each.
        rewards: Array of float64.
        terminations: Array of bool.
        truncations: Array of bool.
        infos: As those of a step, with arrays as long as `env_ids`.
        env_ids: Which sub-environments these are.
    """

    observations: Any
    rewards: npt.NDArray[np.float64]
    terminations: npt.NDArray[np.bool_]
    truncations: npt.NDArray[np.bool_]
    infos: dict[str, Any]
    env_ids: npt.NDArray[np.int64]


class _Send(NamedTuple):
    """A request to begin steps, and what was asked."""

    pending: Pending
    rows: npt.NDArray[np.int64]
    actions: Any


class PartialSteps:
    """Sub-environments that were sent and not received yet.

    Args:
        fleet: The servers.
        recovery: What becomes of a server that is gone.
        actions: Knows batches of actions.
        batches: Knows batches of observations.
        last: The last observations.
    """

    def __init__(
        self,
        fleet: Fleet,
        recovery: Recovery,
        actions: Batches,
        batches: Batches,
        last: LastObservations,
    ) -> None:
        self._fleet = fleet
        self._recovery = recovery
        self._actions = actions
        self._batches = batches
        self._last = last
        self._sent = np.zeros(sum(member.num_envs for member in fleet.members), np.bool_)
        self._sends: list[list[_Send]] = [[] for _ in fleet.members]
        self._refused: deque[tuple[npt.NDArray[np.int64], errors.OpenEnvGymError]] = deque()
        self._receives: dict[int, Pending] = {}
        self._lost: dict[int, errors.OpenEnvGymError] = {}
        self._ready: list[tuple[npt.NDArray[np.int64], list[Any]]] = []
        self._patience = fleet.patience()

    @property
    def in_flight(self) -> int:
        """How many were sent and not received yet."""
        return int(np.count_nonzero(self._sent))

    # -- send ---------------------------------------------------------------------------------

    def send(self, actions: Any, env_ids: Any) -> None:
        """Begin steps; see `RemoteVectorEnv.send`."""
        ids = read_env_ids(env_ids, len(self._sent))
        actions = self._actions.check(actions, len(ids), "actions")
        if self._sent[ids].any():
            twice = ids[self._sent[ids]].tolist()
            raise AlreadyPendingCallError(
                f"Calling `send` for sub-environments {ranges(twice)} while waiting for a pending "
                "call to `send` to complete.",
                "send",
            )
        if not self._actions.plain:
            encode_packet([actions])  # what cannot be sent must not be noticed halfway
        over = np.isin(ids, self._recovery.over(ids))
        if over.any():
            self._sent[ids[over]] = True
            why = reset_needed("send", ids[over].tolist(), 0)
            self._refused.append((ids[over], why))
        for index, member in enumerate(self._fleet.members):
            here = (ids >= member.first) & (ids < member.rows.stop)
            places = np.flatnonzero(here & ~over)
            if not len(places):
                continue
            rows = ids[places] - member.first
            self._sent[ids[places]] = True
            if member.waits_here:
                waiting = (member.unreported | member.resetting)[rows]
                if waiting.any():
                    self._add(index, rows[waiting], self._recovery.answer(index, rows[waiting]))
                    places, rows = places[~waiting], rows[~waiting]
            if len(places):
                self._begin(index, rows, self._actions.take(actions, places))

    def _begin(self, index: int, rows: npt.NDArray[np.int64], actions: Any) -> None:
        connection = self._fleet.members[index].connection
        try:
            if len(self._sends[index]) >= _MOST_SENDS:
                self._finish_sends(index)
            pending = connection.begin("send", [rows, actions])
        except LOSSES as error:
            self._lost.setdefault(index, error)  # `recv` sees to it
        except BaseException:  # Ctrl-C, too, while a connection that broke is resumed
            self._sent[rows + self._fleet.members[index].first] = False
            raise
        else:
            self._sends[index].append(_Send(pending, rows, actions))

    def _finish_sends(self, index: int) -> None:
        """Wait until a server has answered what it was sent last."""
        end_s = time.monotonic() + self._fleet.timeout_s
        try:
            self._fleet.members[index].connection.finish(self._sends[index][-1].pending, end_s)
        except LOSSES:
            raise
        except errors.OpenEnvGymError:
            pass  # which `_check_sends` is told as well
        self._check_sends(index)

    # -- recv ---------------------------------------------------------------------------------

    def recv(self, min_envs: Any, timeout_s: float | None) -> PartialBatch:
        """Return the steps that ended first; see `RemoteVectorEnv.recv`."""
        under_way = self.in_flight
        if not under_way:
            raise NoAsyncCallError("Calling `recv` without any prior call to `send`.", "send")
        whole = isinstance(min_envs, (int, np.integer)) and not isinstance(min_envs, bool)
        if not whole or not 1 <= min_envs <= under_way:
            raise errors.InvalidOptionError(
                f"min_envs={min_envs!r:.40}: expected an integer from 1 to {under_way}, which is "
                "how many sub-environments were sent and not received yet.",
                field="min_envs",
            )
        min_envs = int(min_envs)  # it may be NumPy's, as what counts sub-environments often is
        begin_s = time.monotonic()
        end_s = begin_s + (self._fleet.timeout_s if timeout_s is None else timeout_s)
        while not self._receive(min_envs, begin_s, end_s):
            if time.monotonic() >= end_s:
                if timeout_s is None:
                    raise errors.DeadlineExceededError(
                        f"No answer to recv within {self._fleet.timeout_s:g} s.",
                        hint="Raise timeout_s.",
                    )
                raise multiprocessing.TimeoutError(
                    f"The call to `recv` has timed out after {timeout_s} second(s)."
                )
        return self._take()

    def _receive(self, min_envs: int, begin_s: float, end_s: float) -> bool:
        """Take what servers have, waiting for one of them; tell whether it is enough."""
        self._raise_refusal()
        self._ask(min_envs, begin_s, end_s)
        self._replace_lost()
        if self._ready_count >= min_envs:
            return True
        indices = list(self._receives)
        pairs = [(self._fleet.members[i].connection, self._receives[i]) for i in indices]
        for place, outcome in gather(pairs, end_s, self._patience):
            index = indices[place]
            del self._receives[index]
            if isinstance(outcome, LOSSES):
                self._lost[index] = outcome
                self._replace_lost()
            elif isinstance(outcome, errors.OpenEnvGymError):
                self._fail(index, outcome)
            else:
                rows, *values = outcome.value
                if len(rows):
                    self._add(index, np.asarray(rows, np.int64), values)
                self._check_sends(index)
            self._raise_refusal()
            if self._ready_count >= min_envs:
                return True
            if self._left(index):
                break  # so that it is asked again at once
        return False

    def _ask(self, min_envs: int, begin_s: float, end_s: float) -> None:
        """Ask servers for what they have, where they were not asked already."""
        missing = self.in_flight - min_envs  # so many may still be missing when we return
        for index, member in enumerate(self._fleet.members):
            left = self._left(index)
            if not left or index in self._receives or index in self._lost:
                continue
            wait_s = max(end_s - time.monotonic(), 0.0)
            if len(self._fleet.members) > 1:
                wait_s = min(wait_s, self._patience_of_server(begin_s))
            try:
                self._receives[index] = member.connection.begin(
                    "recv", [max(left - missing, 1), wait_s]
                )
            except LOSSES as error:
                self._lost[index] = error

    def _patience_of_server(self, begin_s: float) -> float:
        """Return how long a server may wait before it says that it has nothing.

        Requests of a session run one after the other. When another server is faster, an answer of
        this one may be outstanding while the caller sends it new actions, and they wait for it.
        """
        return max(_SHORT_S, _SHARE * (time.monotonic() - begin_s))

    def _add(self, index: int, rows: npt.NDArray[np.int64], values: list[Any]) -> None:
        self._last.update(index, rows, values[0])
        self._recovery.note_ends(index, rows, values)
        self._ready.append((rows + self._fleet.members[index].first, values))

    def _take(self) -> PartialBatch:
        ready, self._ready = self._ready, []
        env_ids = np.concatenate([ids for ids, _ in ready])
        self._sent[env_ids] = False
        if len(ready) == 1:
            observations, rewards, terminations, truncations, infos = ready[0][1]
            infos = with_masks(infos, len(env_ids))
            return PartialBatch(observations, rewards, terminations, truncations, infos, env_ids)
        ends = np.cumsum([len(ids) for ids, _ in ready]).tolist()
        rows = [slice(end - len(ids), end) for end, (ids, _) in zip(ends, ready, strict=True)]
        columns = list(zip(*(values for _, values in ready), strict=True))
        return PartialBatch(
            self._batches.join(list(zip(rows, columns[0], strict=True)), len(env_ids)),
            np.concatenate(columns[1]),
            np.concatenate(columns[2]),
            np.concatenate(columns[3]),
            merge_infos(list(zip(rows, columns[4], strict=True)), len(env_ids)),
            env_ids,
        )

    # -- what goes wrong ----------------------------------------------------------------------

    def _fail(self, index: int, error: errors.OpenEnvGymError) -> None:
        """Raise what sub-environments raised; the others can be received later."""
        self._check_sends(index)
        if self._refused and isinstance(error, errors.ProtocolError):
            return  # the server was asked for some that it had refused to begin
        self._sent[self._fleet.members[index].named(error)] = False
        outcomes: list[Any] = [None] * len(self._fleet.members)
        outcomes[index] = error
        raise_failures(self._fleet, outcomes)

    def _check_sends(self, index: int) -> None:
        """Look at answers that came before the one to a later request."""
        connection = self._fleet.members[index].connection
        sends, self._sends[index] = self._sends[index], []
        refused: list[tuple[_Send, errors.OpenEnvGymError]] = []
        for send in sends:
            try:
                if connection.advance(send.pending, 0.0) is None:
                    self._sends[index].append(send)
            except LOSSES as error:
                self._lost.setdefault(index, error)
                return
            except errors.OpenEnvGymError as error:
                refused.append((send, error))
        for send, why in refused:
            self._refuse(index, send, why)

    def _refuse(self, index: int, send: _Send, why: errors.OpenEnvGymError) -> None:
        """Keep for `recv` why a server has begun none of those that it was sent together.

        Where the error names some of them, the others are sent again: nothing is wrong with them.
        """
        member = self._fleet.members[index]
        ids = send.rows + member.first
        named = np.isin(ids, member.named(why))
        if named.any() and not named.all():
            places = np.flatnonzero(~named)
            self._begin(index, send.rows[places], self._actions.take(send.actions, places))
            ids = ids[named]
        why.data["indices"] = ids.tolist()
        self._refused.append((ids, why))

    def _raise_refusal(self) -> None:
        if self._refused:
            ids, error = self._refused.popleft()
            self._sent[ids] = False
            raise error

    def _replace_lost(self) -> None:
        """Report steps on servers that are gone: as an error, or as the end of their episodes."""
        while self._lost:
            index, error = self._lost.popitem()
            member = self._fleet.members[index]
            self._sends[index] = []
            rows = np.flatnonzero(self._on_their_way(index))
            if not self._recovery.restarts:
                self._sent[rows + member.first] = False
                raise member.name_loss(error)
            self._recovery.replace(index, error)
            if len(rows):
                self._add(index, rows, self._recovery.answer(index, rows))

    # -- counting -----------------------------------------------------------------------------

    @property
    def _ready_count(self) -> int:
        return sum(len(ids) for ids, _ in self._ready)

    def _left(self, index: int) -> int:
        return int(self._on_their_way(index).sum())

    def _on_their_way(self, index: int) -> npt.NDArray[np.bool_]:
        """Return which of a member's sub-environments its server has not given back yet."""
        first = self._fleet.members[index].first
        away: npt.NDArray[np.bool_] = self._sent[self._fleet.members[index].rows].copy()
        for ids, _ in (*self._ready, *self._refused):
            rows = ids - first
            away[rows[(rows >= 0) & (rows < len(away))]] = False
        return away
