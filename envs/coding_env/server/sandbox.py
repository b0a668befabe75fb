"""Whether something contains this server, so that it may run what nobody has reviewed."""

from __future__ import annotations

import os

from openenv_gym.errors import IsolationError


__all__ = ["SANDBOX_VARIABLE", "need_sandbox"]

SANDBOX_VARIABLE = "OPENENV_SANDBOX"
"""Set where something contains the server: by this package's image, or by whoever has made another
sandbox. Nothing else is believed: a trainer may run in a container, too, and would then share it
with the agent's programs."""


def need_sandbox(allow_unsandboxed: bool) -> None:
    """Refuse to go on outside of a sandbox.

    Args:
        allow_unsandboxed: Go on all the same.

    Raises:
        IsolationError: Nothing says that this is one.
    """
    if not allow_unsandboxed and not os.environ.get(SANDBOX_VARIABLE):
        raise IsolationError(
            "Programs of an agent are not run outside of a sandbox, and nothing says that this "
            "server is in one.",
            hint='Take provider="docker"; or pass allow_unsandboxed=True if you know those '
            f"programs; or, in a sandbox of your own, set {SANDBOX_VARIABLE}=1 for the server.",
        )
