"""What becomes of sub-environments whose server is gone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode

from openenv_gym import errors
from openenv_gym.vector.batches import Batches, Part
from openenv_gym.vector.fleet import Fleet, Outcome, raise_failures
from openenv_gym.vector.infos import merge_infos, take_infos
from openenv_gym.vector.last import LastObservations
from openenv_gym.vector.member import LOSSES, Member
from openenv_gym.vector.replies import check_step


__all__ = ["Recovery"]

_MODES = ("raise", "restart")


class Recovery:
    """Raises what went wrong, or lets fresh servers take the place of those that are gone.

    The episodes on a server that is gone end as if they had been truncated after the last
    observation that was seen. The fresh server has begun new ones; when the autoreset mode says
    so, their first observations are handed out. Between the two, a sub-environment "waits here".

    Args:
        fleet: The servers.
        on_failure: ``"raise"`` or ``"restart"``.
        mode: When new episodes begin.
        batches: Knows batches of observations.
        last: The last observations.

    Raises:
        InvalidOptionError: `on_failure` is neither.
    """

    def __init__(
        self,
        fleet: Fleet,
        on_failure: str,
        mode: AutoresetMode,
        batches: Batches,
        last: LastObservations,
    ) -> None:
        if on_failure not in _MODES:
            raise errors.InvalidOptionError(
                f"on_failure={on_failure!r:.60}: expected one of {', '.join(map(repr, _MODES))}.",
                field="on_failure",
            )
        self.restarts = fleet.replaceable = on_failure == "restart"
        self._fleet = fleet
        self._mode = mode
        self._batches = batches
        self._last = last
        # Where all servers move or none, somebody has to know before the first of them is asked.
        self._notes_ends = self.restarts or mode is AutoresetMode.DISABLED
        self._attributes: dict[str, list[Any]] = {}
        self._reset_args: Sequence[list[Any]] = ()

    # -- what is asked ------------------------------------------------------------------------

    def reset_args(
        self, args: Sequence[list[Any]], mask: npt.NDArray[np.bool_] | None
    ) -> list[list[Any] | None]:
        """Return what each server is asked in a reset; None: it has nothing to do.

        A server may be new and not know the last observations, where one can be replaced. Others
        are asked for them.

        Args:
            args: Seeds, options and mask for each.
            mask: Which sub-environments are to be reset; None for all.
        """
        self._reset_args = args
        asked: list[list[Any] | None] = []
        for member, each in zip(self._fleet.members, args, strict=True):
            chosen = np.ones(member.num_envs, np.bool_) if mask is None else mask[member.rows]
            member.settle(chosen)
            asked.append(each if chosen.any() or not self.restarts else None)
        return asked

    def step_args(self, args: Sequence[list[Any]]) -> list[list[Any] | None]:
        """Return what each server is asked in a step; None: all its sub-environments wait here."""
        if not self.restarts:
            return list(args)
        return [
            None if member.waits_here and (member.unreported | member.resetting).all() else each
            for member, each in zip(self._fleet.members, args, strict=True)
        ]

    def note_attribute(self, name: str, values: list[Any]) -> None:
        """Remember an attribute that was set, for fresh servers."""
        if self.restarts:
            self._attributes[name] = values

    def note_ends(self, index: int, rows: Any, values: Sequence[Any]) -> None:
        """Remember which of a member's sub-environments have ended an episode.

        Args:
            index: Of the member.
            rows: Which of its sub-environments were stepped.
            values: What a step returned for them.
        """
        if self._notes_ends:
            self._fleet.members[index].over[rows] = values[2] | values[3]

    def over(self, ids: npt.NDArray[np.int64] | None = None) -> list[int]:
        """Return which sub-environments take no step before a reset, as far as they told.

        Args:
            ids: Out of these; None for all.
        """
        if self._mode is not AutoresetMode.DISABLED:
            return []
        over = np.concatenate([member.over for member in self._fleet.members])
        chosen = np.flatnonzero(over) if ids is None else ids[over[ids]]
        found: list[int] = chosen.tolist()
        return found

    # -- what is answered ---------------------------------------------------------------------

    def reset_again(self, outcomes: Sequence[Outcome | None]) -> list[Any]:
        """Return what each member has to say about a reset in which not every server answered."""
        self._replace_lost(outcomes, reset=False)
        values = []
        for index, (member, outcome) in enumerate(zip(self._fleet.members, outcomes, strict=True)):
            if outcome is None:
                values.append([self._last.take(index, slice(None)), {}])
            elif isinstance(outcome, LOSSES):
                values.append(self._reset_fresh(index, member))
            else:
                value = outcome.value  # type: ignore[union-attr]  # others were raised
                values.append(self._with_last_of_waiting(index, member, value))
        return values

    def step_again(self, outcomes: Sequence[Outcome | None]) -> list[Any]:
        """Likewise for a step."""
        if any(_failed(outcome) for outcome in outcomes):
            self._note_untold_ends(outcomes)
        self._replace_lost(outcomes, reset=True)
        values = []
        for index, (member, outcome) in enumerate(zip(self._fleet.members, outcomes, strict=True)):
            value = None if outcome is None or isinstance(outcome, LOSSES) else outcome.value  # type: ignore[union-attr]
            if member.waits_here:
                value = self._answer_step(index, member, value)
            values.append(value)
        return values

    def give_up(self, outcomes: Sequence[Outcome | None]) -> list[Any]:
        """Raise what went wrong with a call, if anything. Fresh servers wait for the next step."""
        if self.restarts:
            self._replace_lost(outcomes, reset=True)
        raise_failures(self._fleet, outcomes)
        return [outcome.value for outcome in outcomes]  # type: ignore[union-attr]  # none failed

    @property
    def something_waits(self) -> bool:
        """Some sub-environments have something to say that does not come from their server."""
        return self.restarts and any(member.waits_here for member in self._fleet.members)

    def replace(self, index: int, why: errors.OpenEnvGymError) -> None:
        """Let a fresh server begin new episodes; all its sub-environments wait here from then on.

        Raises:
            OpenEnvGymError: No other server can be had.
        """
        member = self._fleet.members[index]
        member.replace(why)
        member.fresh = self._begin_anew(member, [None, None, None])
        self._note_loss(member, np.ones(member.num_envs, np.bool_))

    def answer(self, index: int, rows: npt.NDArray[np.int64]) -> list[Any]:
        """Return the step of sub-environments that wait here.

        Args:
            index: Of their member.
            rows: Their numbers within it.
        """
        member = self._fleet.members[index]
        assert member.fresh is not None
        count = len(rows)
        everything = np.arange(count)
        lost = member.unreported[rows]
        fresh = self._batches.take(member.fresh[0], rows)
        last = self._batches.take(self._last.take(index, slice(None)), rows[lost])
        told = lost | member.untold[rows]
        infos: list[Any] = [(everything[told], _flag(int(told.sum())))] if told.any() else []
        if self._mode is AutoresetMode.SAME_STEP:
            observations = fresh
            shown = np.ones(count, np.bool_)
            finals = np.full(count, None, object)
            for place, number in enumerate(everything[lost]):
                finals[number] = _sample(self._batches, last, place)
            if lost.any():
                ended = {"final_obs": finals, "final_info": {}}
                masks = {f"_{key}": lost for key in ended}
                infos.append((everything, {**ended, **masks}))
        else:
            observations = self._batches.join(
                [(everything, fresh), (everything[lost], last)], count
            )
            shown = ~lost
        infos.append((everything[shown], take_infos(member.fresh[1], rows[shown])))
        member.resetting[rows] = lost & (self._mode is not AutoresetMode.SAME_STEP)
        member.unreported[rows] = member.untold[rows] = False
        return [
            observations,
            np.zeros(count),
            np.zeros(count, np.bool_),
            lost,
            merge_infos(infos, count),
        ]

    # -- inside -------------------------------------------------------------------------------

    def _note_untold_ends(self, outcomes: Sequence[Outcome | None]) -> None:
        """Remember, and have the error tell, whose episodes ended in a step that is an error."""
        ended: list[int] = []
        for member, outcome in zip(self._fleet.members, outcomes, strict=True):
            if outcome is None or isinstance(outcome, LOSSES):
                continue
            if isinstance(outcome, errors.OpenEnvGymError):
                member.over[:] = np.isin(member.indices, member.named(outcome, "ended"))
            else:
                check_step(member, outcome.value, self._batches)
                member.over[:] = outcome.value[2] | outcome.value[3]
            ended += (np.flatnonzero(member.over) + member.first).tolist()
        for outcome in outcomes if ended else ():
            if _failed(outcome):
                outcome.data["ended"] = ended  # type: ignore[union-attr]

    def _replace_lost(self, outcomes: Sequence[Outcome | None], *, reset: bool) -> None:
        """Replace servers that are gone; raise whatever else went wrong."""
        losses = {
            index: outcome for index, outcome in enumerate(outcomes) if isinstance(outcome, LOSSES)
        }
        if not self.restarts:
            raise_failures(self._fleet, outcomes)
            return
        for index, error in losses.items():
            if reset:
                self.replace(index, error)
            else:
                self._fleet.members[index].replace(error)
        raise_failures(
            self._fleet, [None if isinstance(each, LOSSES) else each for each in outcomes]
        )

    def _begin_anew(self, member: Member, reset: list[Any]) -> tuple[Any, dict[str, Any]]:
        """Begin episodes on a fresh server; return their first observations and infos.

        Where that fails the server is given up again, or its sub-environments would be taken for
        those that were lost. The next call then finds it gone.
        """
        try:
            for name, values in self._attributes.items():
                member.connection.call("set", [name, values[member.rows]])
            observations, infos = member.connection.call("reset", reset).value
        except BaseException:
            member.discard()
            raise
        return observations, infos

    def _note_loss(self, member: Member, rows: npt.NDArray[np.bool_]) -> None:
        """Note whose episodes went with an earlier server: these wait here."""
        member.unreported[:] = rows
        if self._mode is AutoresetMode.NEXT_STEP:
            # Whose episode was over already has none to lose: the next step would have reset it.
            member.unreported[member.over] = False
            member.resetting[:] = member.untold[:] = rows & member.over

    def _with_last_of_waiting(self, index: int, member: Member, value: list[Any]) -> list[Any]:
        """Return the answer to a reset, in which those that wait here were not to be reset."""
        rows = np.flatnonzero(member.unreported | member.resetting)
        if not member.waits_here or not len(rows):
            return value
        last = self._batches.take(self._last.take(index, slice(None)), rows)
        parts: list[Part] = [(slice(None), value[0]), (rows, last)]
        return [self._batches.join(parts, member.num_envs), value[1]]

    def _reset_fresh(self, index: int, member: Member) -> list[Any]:
        """Reset a fresh server in place of the one that went in the middle of a reset."""
        seeds, options, mask = self._reset_args[index]
        observations, infos = fresh = self._begin_anew(member, [seeds, options, None])
        everything = slice(None)
        infos = merge_infos(
            [(everything, infos), (everything, _flag(member.num_envs))], member.num_envs
        )
        if mask is not None:  # others were not to be reset: their loss is told in the next step
            member.fresh = fresh
            self._note_loss(member, ~mask)
            last = self._last.take(index, slice(None))
            rows = np.flatnonzero(~mask)
            observations = self._batches.join(
                [(everything, observations), (rows, self._batches.take(last, rows))],
                member.num_envs,
            )
            rows = np.flatnonzero(mask)
            infos = merge_infos([(rows, take_infos(infos, rows))], member.num_envs)
        return [observations, infos]

    def _answer_step(self, index: int, member: Member, value: Any) -> list[Any]:
        waiting = member.unreported | member.resetting
        rows = np.flatnonzero(waiting)
        if value is not None:
            # Their new episodes were stepped along with the rest; so they begin others.
            member.fresh = tuple(member.connection.call("reset", [None, None, waiting]).value)
        answer = self.answer(index, rows)
        if value is None:
            return answer
        others = np.flatnonzero(~waiting)
        parts = [
            (others, [self._batches.take(value[0], others), *(v[others] for v in value[1:4])]),
            (rows, answer),
        ]
        joined = [
            np.concatenate([part[k] for _, part in parts])[np.argsort(np.r_[others, rows])]
            for k in (1, 2, 3)
        ]
        return [
            self._batches.join([(where, part[0]) for where, part in parts], member.num_envs),
            *joined,
            merge_infos(
                [(others, take_infos(value[4], others)), (rows, answer[4])], member.num_envs
            ),
        ]


def _failed(outcome: Outcome | None) -> bool:
    return isinstance(outcome, errors.OpenEnvGymError) and not isinstance(outcome, LOSSES)


def _flag(count: int) -> dict[str, Any]:
    return {
        "server_restarted": np.ones(count, np.int64),
        "_server_restarted": np.ones(count, np.bool_),
    }


def _sample(batches: Batches, batch: Any, place: int) -> Any:
    return batches.sample(batch, place)
