"""Gymnasium spaces from Pydantic models, spaces as plain data, and samples checked; no wire."""

from openenv_gym.spaces.actions import check_action
from openenv_gym.spaces.data import space_from_data, space_to_data
from openenv_gym.spaces.mapping import ModelMapping
from openenv_gym.spaces.schemas import model_from_schema


__all__ = [
    "ModelMapping",
    "check_action",
    "model_from_schema",
    "space_from_data",
    "space_to_data",
]
