"""Where servers run. A provider knows how to start and stop one, not what an environment is."""

from __future__ import annotations

import logging
import os

from openenv_gym import errors
from openenv_gym.providers.base import Provider, RunningServer, ServerTarget


__all__ = ["Provider", "RunningServer", "ServerTarget", "get_provider"]

_log = logging.getLogger("openenv_gym")
_warned = False


def get_provider(choice: str | Provider | None) -> Provider:
    """Return the provider that ``provider=`` or ``OPENENV_PROVIDER`` asks for.

    Args:
        choice: ``"auto"``, ``"process"``, ``"thread"``, or a provider; None reads the variable
            and falls back to ``"auto"``.

    Raises:
        InvalidOptionError: There is no provider of this name.
    """
    if choice is not None and not isinstance(choice, str):
        return choice
    name = choice or os.environ.get("OPENENV_PROVIDER") or "auto"
    if name == "auto":
        _warn_once()
        name = "process"
    if name == "process":
        from openenv_gym.providers.process import ProcessProvider

        return ProcessProvider()
    if name == "thread":
        from openenv_gym.providers.thread import ThreadProvider

        return ThreadProvider()
    raise errors.InvalidOptionError(
        f"There is no provider {name!r}.",
        field="provider",
        hint='Expected "auto", "process", "thread", or a provider object.',
    )


def _warn_once() -> None:
    global _warned
    if not _warned:
        _warned = True
        _log.warning(
            "The environment runs in a local process: faults stay there, but nothing isolates it "
            'from this machine (provider="process" says that you know).'
        )
