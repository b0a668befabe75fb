"""An environment package in this process, without a server: what a hosted one is compared with.

``benchmarks/Local-v0`` with ``package="chess_env"`` and that environment's options.
"""

from __future__ import annotations

from typing import Any

import gymnasium

from openenv_gym.server import Environment, load_app
from openenv_gym.server.adapter import TypedEnv


__all__ = ["make"]


def make(package: str, **options: Any) -> TypedEnv:
    """Return an environment of a package that is installed here.

    Args:
        package: Its import name.
        **options: Options of the environment.
    """
    environment = load_app(package).factory(**options)
    assert isinstance(environment, Environment)
    return TypedEnv(environment)


gymnasium.register("benchmarks/Local-v0", entry_point="benchmarks.local:make")
