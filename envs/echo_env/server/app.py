"""The application that a server serves (named in `openenv.yaml`)."""

from echo_env.server.echo_environment import EchoEnvironment
from openenv_gym.server import create_app


__all__ = ["app"]

app = create_app(EchoEnvironment, name="echo_env")
