"""Running one operation of a request, whatever the session holds."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from openenv_gym import errors


__all__ = ["find_operation", "read_saved", "run_operation"]

Operation = Callable[..., Any]


def find_operation(operations: Mapping[str, Operation], op: str) -> Operation:
    """Return the operation of this name.

    Raises:
        ProtocolError: There is none.
    """
    operation = operations.get(op)
    if operation is None:
        raise errors.ProtocolError(
            f"Unknown operation {op!r:.40}, expected one of {', '.join(operations)}.", field="op"
        )
    return operation


def run_operation(operation: Operation, op: str, args: list[Any]) -> tuple[Any, int]:
    """Run an operation; return its value, and the nanoseconds that it took.

    Raises:
        ProtocolError: It does not take these arguments.
        Exception: Whatever it raises.
    """
    begin_ns = time.perf_counter_ns()
    try:
        value = operation(*args)
    except TypeError as error:
        # Raised by the call itself, and not by something further down.
        if error.__traceback__ is not None and error.__traceback__.tb_next is None:
            raise errors.ProtocolError(
                f"Operation {op} does not take these {len(args)} arguments.", field="args"
            ) from None
        raise
    return value, time.perf_counter_ns() - begin_ns


def read_saved(saved: Any) -> tuple[int, Any]:
    """Return the number of steps and the environment's own data in what was saved.

    Raises:
        ProtocolError: It is nothing that ``save_state`` returned.
    """
    if isinstance(saved, (list, tuple)) and len(saved) == 2:
        steps, state = saved
        if type(steps) is int and 0 <= steps < 1 << 63:
            return steps, state
    raise errors.ProtocolError(
        f"Expected what save_state returned, got {saved!r:.60}.", field="saved"
    )
