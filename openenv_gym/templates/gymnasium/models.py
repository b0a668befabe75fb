"""What goes in and out for typed clients; the spaces are in the environment itself."""

from typing import Annotated

import numpy as np
from openenv_gym import Action, Array, Observation
from pydantic import Field


__all__ = ["TemplateAction", "TemplateObservation"]


class TemplateAction(Action):
    """What `step` of the Gymnasium environment takes.

    Attributes:
        action: 0 pushes to the left, 1 not at all, 2 to the right.
    """

    action: int = Field(ge=0, le=2)


class TemplateObservation(Observation):
    """What `reset` and `step` of the Gymnasium environment return.

    Attributes:
        observation: Position and velocity.
    """

    observation: Annotated[np.ndarray, Array(shape=(2,), dtype="float32")]
