"""Where servers run. A provider knows how to start and stop one, not what an environment is."""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

from openenv_gym import errors
from openenv_gym.providers.base import Provider, RunningServer, ServerTarget
from openenv_gym.providers.registry import PROVIDERS, provider_class
from openenv_gym.providers.sandbox import Mount, Network, Resources, Sandbox


if TYPE_CHECKING:
    from openenv_gym.providers.docker import DockerProvider
    from openenv_gym.providers.kubernetes import KubernetesProvider
    from openenv_gym.providers.process import ProcessProvider
    from openenv_gym.providers.swarm import SwarmProvider
    from openenv_gym.providers.uv import UvProvider

__all__ = [
    "PROVIDERS",
    "DockerProvider",
    "KubernetesProvider",
    "Mount",
    "Network",
    "ProcessProvider",
    "Provider",
    "Resources",
    "RunningServer",
    "Sandbox",
    "ServerTarget",
    "SwarmProvider",
    "UvProvider",
    "get_provider",
]

_LATE = {
    "DockerProvider": "openenv_gym.providers.docker",
    "KubernetesProvider": "openenv_gym.providers.kubernetes",
    "ProcessProvider": "openenv_gym.providers.process",
    "SwarmProvider": "openenv_gym.providers.swarm",
    "UvProvider": "openenv_gym.providers.uv",
}
"""Classes that are imported when they are asked for, and where each is."""


def get_provider(choice: str | Provider | None) -> Provider:
    """Return the provider that ``provider=`` or ``OPENENV_PROVIDER`` asks for.

    Args:
        choice: ``"auto"``, a name in `PROVIDERS`, or a provider; None reads the variable and falls
            back to ``"auto"``.

    Raises:
        InvalidOptionError: There is no provider of this name.
    """
    if choice is not None and not isinstance(choice, str):
        return choice
    name = choice or os.environ.get("OPENENV_PROVIDER") or "auto"
    if name == "auto":
        from openenv_gym.providers.auto import AutoProvider

        return AutoProvider()
    if name in PROVIDERS:
        provider: Provider = provider_class(name)()
        return provider
    names = ", ".join(f'"{each}"' for each in PROVIDERS)
    raise errors.InvalidOptionError(
        f"There is no provider {name!r}.",
        field="provider",
        hint=f'Expected "auto", {names}, or a provider object.',
    )


def __getattr__(name: str) -> Any:
    module = _LATE.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(module), name)
