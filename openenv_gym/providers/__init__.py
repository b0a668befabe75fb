"""Where servers run. A provider knows how to start and stop one, not what an environment is."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from openenv_gym import errors
from openenv_gym.providers.base import Provider, RunningServer, ServerTarget


if TYPE_CHECKING:
    from openenv_gym.providers.docker import ContainerLimits, DockerProvider
    from openenv_gym.providers.process import ProcessProvider

__all__ = [
    "ContainerLimits",
    "DockerProvider",
    "ProcessProvider",
    "Provider",
    "RunningServer",
    "ServerTarget",
    "get_provider",
]


def get_provider(choice: str | Provider | None) -> Provider:
    """Return the provider that ``provider=`` or ``OPENENV_PROVIDER`` asks for.

    Args:
        choice: ``"auto"``, ``"docker"``, ``"process"``, ``"thread"``, or a provider; None reads the
            variable and falls back to ``"auto"``.

    Raises:
        InvalidOptionError: There is no provider of this name.
    """
    if choice is not None and not isinstance(choice, str):
        return choice
    name = choice or os.environ.get("OPENENV_PROVIDER") or "auto"
    if name == "auto":
        from openenv_gym.providers.auto import AutoProvider

        return AutoProvider()
    if name == "docker":
        from openenv_gym.providers.docker import DockerProvider

        return DockerProvider()
    if name == "process":
        from openenv_gym.providers.process import ProcessProvider

        return ProcessProvider()
    if name == "thread":
        from openenv_gym.providers.thread import ThreadProvider

        return ThreadProvider()
    raise errors.InvalidOptionError(
        f"There is no provider {name!r}.",
        field="provider",
        hint='Expected "auto", "docker", "process", "thread", or a provider object.',
    )


def __getattr__(name: str) -> Any:
    if name in ("ContainerLimits", "DockerProvider"):
        from openenv_gym.providers import docker

        return getattr(docker, name)
    if name == "ProcessProvider":
        from openenv_gym.providers.process import ProcessProvider

        return ProcessProvider
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
