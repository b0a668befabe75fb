"""Echo: the smallest environment, for trying out a connection. Importing it brings the models."""

from echo_env.models import EchoAction, EchoObservation


__all__ = ["EchoAction", "EchoObservation"]
