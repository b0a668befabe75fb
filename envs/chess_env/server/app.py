"""The application that a server serves (named in `openenv.yaml`)."""

from chess_env.server.chess_environment import ChessEnvironment
from openenv_gym.server import create_app


__all__ = ["app"]

app = create_app(ChessEnvironment, name="chess_env")
