"""The application that a server serves (named in `openenv.yaml`)."""

from openenv_gym.server import create_app

from echo_env.server.echo_environment import EchoEnvironment


__all__ = ["app"]

app = create_app(EchoEnvironment, name="echo_env")
