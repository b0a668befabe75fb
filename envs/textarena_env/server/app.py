"""The application that a server serves (named in `openenv.yaml`)."""

from openenv_gym.server import create_app
from textarena_env.server.textarena_environment import TextArenaEnvironment


__all__ = ["app"]

app = create_app(TextArenaEnvironment, name="textarena_env")
