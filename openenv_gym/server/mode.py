"""Whether who connects may control the simulation, or only act in it.

In *simulation* a trainer resets and steps the environment. In *production* there is nobody to do
so: an agent lists and calls tools, and must not be able to begin the episode again that it is
about to lose.
"""

from __future__ import annotations

import os
from enum import Enum

from openenv_gym import errors


__all__ = ["MODE_VARIABLE", "Mode"]

MODE_VARIABLE = "OPENENV_MODE"
"""The environment variable that names the mode of a process."""

# Everything that neither changes nor reveals what an agent could not by its tools.
_OF_AGENTS = frozenset({"mcp", "json_mcp", "describe_actions", "ping", "close", "cancelled"})


class Mode(str, Enum):
    """What a server is for; `MODE_VARIABLE` names it."""

    SIMULATION = "simulation"
    """Whoever connects controls the environment."""
    PRODUCTION = "production"
    """Whoever connects calls its tools."""

    @classmethod
    def of_process(cls) -> Mode:
        """Return the mode that ``OPENENV_MODE`` names; without it, simulation.

        Raises:
            InvalidOptionError: It names none.
        """
        name = os.environ.get(MODE_VARIABLE, "").strip().lower() or cls.SIMULATION.value
        try:
            return cls(name)
        except ValueError:
            raise errors.InvalidOptionError(
                f"{MODE_VARIABLE}={name!r}: expected {' or '.join(mode.value for mode in cls)}.",
                field=MODE_VARIABLE,
            ) from None

    def check(self, operation: str) -> None:
        """Refuse an operation of somebody who connected, where this mode does not allow it.

        Args:
            operation: An operation of the binary protocol, which the messages of OpenEnv's JSON
                and its routes stand for as well.

        Raises:
            ForbiddenOperationError: It controls the simulation, and this is production.
        """
        if self is Mode.PRODUCTION and operation not in _OF_AGENTS:
            raise errors.ForbiddenOperationError(
                "This server is in production mode, which has no "
                f"{operation.removeprefix('json_')}.",
                field="op",
                hint="Tools are called at /mcp.",
                data={"mode": self.value},
            )
