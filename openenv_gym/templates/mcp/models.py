"""What goes in and out: calls of tools, and their results."""

from openenv_gym import CallToolAction, CallToolObservation


__all__ = ["TemplateAction", "TemplateObservation"]


class TemplateAction(CallToolAction):
    """A call of one of the tools."""


class TemplateObservation(CallToolObservation):
    """What a tool returned."""
