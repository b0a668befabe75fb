"""The event loop on which rubrics that are asynchronous run where nobody has a loop."""

from openenv_gym.background import Background


__all__ = ["background"]

background = Background("openenv-gym-rubrics")
"""One for all rubrics of the process, as connections to a model's endpoint belong to a loop.

Not that of clients, which would stand still where a rubric keeps its loop busy.
"""
