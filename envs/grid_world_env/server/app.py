"""The application that a server serves (named in `openenv.yaml`)."""

from grid_world_env.server.grid_world_environment import GridWorldEnvironment
from openenv_gym.server import create_app


__all__ = ["app"]

app = create_app(GridWorldEnvironment, name="grid_world_env")
