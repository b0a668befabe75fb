"""Gymnasium spaces from Pydantic models and back, spaces as plain data, and samples checked."""

from openenv_gym.spaces.actions import check_action
from openenv_gym.spaces.choices import describe_kind
from openenv_gym.spaces.data import space_from_data, space_to_data
from openenv_gym.spaces.describe import describe_space
from openenv_gym.spaces.json_form import json_schema, sample_from_json, sample_to_json
from openenv_gym.spaces.mapping import ModelMapping
from openenv_gym.spaces.models import Sample, model_from_space
from openenv_gym.spaces.schemas import model_from_schema
from openenv_gym.spaces.stand_ins import carried_space, register_space


__all__ = [
    "ModelMapping",
    "Sample",
    "carried_space",
    "check_action",
    "describe_kind",
    "describe_space",
    "json_schema",
    "model_from_schema",
    "model_from_space",
    "register_space",
    "sample_from_json",
    "sample_to_json",
    "space_from_data",
    "space_to_data",
]
