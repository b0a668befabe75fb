"""What servers answer, looked at before it is put together or handed out."""

from __future__ import annotations

from typing import Any

import numpy as np

from openenv_gym import errors
from openenv_gym.vector.batches import Batches
from openenv_gym.vector.member import Member


__all__ = ["check_reset", "check_step"]


def check_reset(member: Member, value: Any, batches: Batches) -> None:
    """Refuse what is no result of a reset.

    Args:
        member: Whose answer it is.
        value: The answer.
        batches: Knows batches of observations.

    Raises:
        ProtocolError: It has another form.
    """
    if type(value) is not list or len(value) != 2 or type(value[1]) is not dict:
        raise _refusal(member, "reset", "[observations, infos]", value)
    _check_observations(member, "reset", value[0], batches)


def check_step(member: Member, value: Any, batches: Batches) -> None:
    """Refuse what is no result of a step; see `check_reset`.

    Raises:
        ProtocolError: It has another form.
    """
    if type(value) is not list or len(value) != 5 or type(value[4]) is not dict:
        form = "[observations, rewards, terminations, truncations, infos]"
        raise _refusal(member, "step", form, value)
    count = member.num_envs
    for name, column, kinds in (
        ("rewards", value[1], "biuf"),
        ("terminations", value[2], "b"),
        ("truncations", value[3], "b"),
    ):
        if (
            type(column) is not np.ndarray
            or column.dtype.kind not in kinds
            or column.shape[:1] != (count,)
        ):
            raise _refusal(member, "step", f"{name} as an array for {count}", column)
    _check_observations(member, "step", value[0], batches)


def _check_observations(member: Member, op: str, observations: Any, batches: Batches) -> None:
    if not batches.fits(observations, member.num_envs):
        form = f"a batch of {member.num_envs} observations of its space"
        raise _refusal(member, op, form, observations)


def _refusal(member: Member, op: str, expected: str, got: Any) -> errors.ProtocolError:
    shown = repr(got)
    if type(got) is list:
        shown = f"an array of {len(got)} items"
    elif isinstance(got, np.ndarray):
        shown = f"an array of shape {got.shape} and dtype {got.dtype}"
    return errors.ProtocolError(
        f"The server at {member.connection.address} answered {op} with {shown:.120}, "
        f"expected {expected}.",
        data={"indices": member.indices},
    )
