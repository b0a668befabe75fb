"""The application that a server serves (named in `openenv.yaml`)."""

from openenv_gym.server import create_app
from snake_env.server.snake_environment import SnakeEnvironment


__all__ = ["app"]

app = create_app(SnakeEnvironment, name="snake_env")
