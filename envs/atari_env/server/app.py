"""The application that a server serves (named in `openenv.yaml`)."""

from atari_env.server.atari_environment import AtariEnvironment
from openenv_gym.server import create_app


__all__ = ["app"]

app = create_app(AtariEnvironment, name="atari_env")
