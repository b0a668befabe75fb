"""The application that a server serves (named in `openenv.yaml`)."""

from openenv_gym.server import create_app

from atari_env.server.atari_environment import AtariEnvironment


__all__ = ["app"]

app = create_app(AtariEnvironment, name="atari_env")
