"""The application that a server serves (named in `openenv.yaml`)."""

from finrl_env.server.finrl_environment import FinRLEnvironment
from openenv_gym.server import create_app


__all__ = ["app"]

app = create_app(FinRLEnvironment, name="finrl_env")
