"""Gymnasium spaces from Pydantic models, spaces as plain data, and samples checked; no wire."""

from openenv_gym.spaces.data import space_from_data, space_to_data
from openenv_gym.spaces.mapping import ModelMapping
from openenv_gym.spaces.samples import check_action


__all__ = ["ModelMapping", "check_action", "space_from_data", "space_to_data"]
