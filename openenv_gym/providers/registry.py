"""Which providers there are, by name. Each is imported when it is asked for."""

from __future__ import annotations

import contextlib
import importlib
from typing import Any


__all__ = ["PROVIDERS", "provider_class", "who_honours"]

PROVIDERS = {
    "thread": "openenv_gym.providers.thread:ThreadProvider",
    "process": "openenv_gym.providers.process:ProcessProvider",
    "uv": "openenv_gym.providers.uv:UvProvider",
    "docker": "openenv_gym.providers.docker:DockerProvider",
    "swarm": "openenv_gym.providers.swarm:SwarmProvider",
    "kubernetes": "openenv_gym.providers.kubernetes:KubernetesProvider",
    "daytona": "openenv_gym.providers.daytona:DaytonaProvider",
}
"""What ``provider=`` calls each, and where its class is; ``"auto"`` is a choice among them."""


def provider_class(name: str) -> Any:
    """Return the class of a provider.

    Raises:
        KeyError: There is none of this name.
    """
    module, _, attribute = PROVIDERS[name].partition(":")
    return getattr(importlib.import_module(module), attribute)


def who_honours(option: str) -> list[str]:
    """Return the providers that honour an option of a sandbox, such as ``"memory_bytes"``."""
    able = []
    for name in PROVIDERS:
        with contextlib.suppress(ImportError):  # it has no part in what is wrong
            if option in provider_class(name).honours:
                able.append(name)
    return able
