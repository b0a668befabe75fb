"""Echo: the smallest environment, for trying out a connection. Importing it brings the models."""

from echo_env.models import EchoAction, EchoObservation
from openenv_gym.models import CallToolAction, ListToolsAction


__all__ = ["CallToolAction", "EchoAction", "EchoObservation", "ListToolsAction"]
