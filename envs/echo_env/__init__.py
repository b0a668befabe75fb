"""Echo: the smallest environment, for trying out a connection. Importing it brings the models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from echo_env.models import EchoAction, EchoObservation
from openenv_gym.models import CallToolAction, ListToolsAction


if TYPE_CHECKING:
    from echo_env.client import EchoEnv

__all__ = ["CallToolAction", "EchoAction", "EchoEnv", "EchoObservation", "ListToolsAction"]


def __getattr__(name: str) -> Any:
    if name == "EchoEnv":  # which a server does not need
        from echo_env.client import EchoEnv

        return EchoEnv
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
