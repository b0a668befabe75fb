"""The application that a server serves (named in `openenv.yaml`)."""

from maze_env.server.maze_environment import MazeEnvironment
from openenv_gym.server import create_app


__all__ = ["app"]

app = create_app(MazeEnvironment, name="maze_env")
