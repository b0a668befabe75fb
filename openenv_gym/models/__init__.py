"""Typed data that environments, servers and clients exchange; knows neither spaces nor the wire."""

from openenv_gym.models.fields import Array
from openenv_gym.models.types import Action, Observation, State, StepResult


__all__ = ["Action", "Array", "Observation", "State", "StepResult"]
