"""Stock trading after FinRL. Importing this package brings the models only, no market."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from finrl_env.models import FinRLAction, FinRLObservation, FinRLState
from finrl_env.options import FinRLOptions


if TYPE_CHECKING:
    from finrl_env.client import FinRLEnv

__all__ = ["FinRLAction", "FinRLEnv", "FinRLObservation", "FinRLOptions", "FinRLState"]


def __getattr__(name: str) -> Any:
    if name == "FinRLEnv":  # which a server does not need
        from finrl_env.client import FinRLEnv

        return FinRLEnv
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
