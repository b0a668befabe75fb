"""Exceptions of sub-environments as errors that tell whose they are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from openenv_gym import errors
from openenv_gym.protocol.messages import error_to_wire
from openenv_gym.server.exhaustion import limit_reached


__all__ = ["raise_failures", "reset_needed"]


def raise_failures(
    failures: Iterable[tuple[int, BaseException]], first: int, ended: Iterable[int] = ()
) -> None:
    """Raise what the last of several sub-environments raised, if any did.

    Args:
        failures: Indices and exceptions.
        first: Added to the indices.
        ended: Those whose episodes ended meanwhile, of which nobody is told but by the error.

    Raises:
        OpenEnvGymError: ``data`` has the ``index`` of the last one, and the ``indices`` of all;
            ``ended`` where there are such.
    """
    found = dict(failures)
    if not found:
        return
    indices = sorted(found)
    last = limit_reached(found[indices[-1]]) or found[indices[-1]]
    data: dict[str, Any] = {
        "index": indices[-1] + first,
        "indices": [index + first for index in indices],
    }
    if over := [index + first for index in ended if index not in found]:
        data["ended"] = over
    if isinstance(last, errors.OpenEnvGymError):
        last.data.update(data)
        raise last
    wire = error_to_wire(last)
    raise errors.EnvironmentFailedError(wire["message"], data={**wire["data"], **data}) from last


def reset_needed(op: str, indices: Iterable[int], first: int) -> errors.ResetNeededError:
    """Return the error for an operation on sub-environments that must be reset before."""
    numbers = [index + first for index in indices]
    shown = ", ".join(map(str, numbers[:8])) + (", ..." if len(numbers) > 8 else "")
    return errors.ResetNeededError(
        f"Cannot call {op} before reset: sub-environment(s) {shown}.",
        hint="Call reset() first.",
        data={"index": numbers[-1], "indices": numbers},
    )
