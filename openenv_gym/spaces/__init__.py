"""Gymnasium spaces from Pydantic models, spaces as plain data, and samples checked; no wire."""

from openenv_gym.spaces.actions import check_action
from openenv_gym.spaces.data import space_from_data, space_to_data
from openenv_gym.spaces.mapping import ModelMapping


__all__ = ["ModelMapping", "check_action", "space_from_data", "space_to_data"]
