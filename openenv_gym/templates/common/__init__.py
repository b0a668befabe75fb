"""The template environment: its models, and its client when it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from template_env.models import TemplateAction, TemplateObservation


if TYPE_CHECKING:
    from template_env.client import TemplateEnv

__all__ = ["TemplateAction", "TemplateEnv", "TemplateObservation"]


def __getattr__(name: str) -> Any:
    if name == "TemplateEnv":  # which a server does not need
        from template_env.client import TemplateEnv

        return TemplateEnv
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
