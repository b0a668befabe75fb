"""The application that a server serves (named in `openenv.yaml`)."""

from dataclasses import replace

from atari_env.server.atari_environment import AtariEnvironment
from atari_env.server.vector import make_games
from openenv_gym.server import create_app


__all__ = ["app"]

# Without `releases_gil`: ale-py holds on to the interpreter while it emulates, and with threads a
# vector session of unprocessed games is slower than without.
app = replace(create_app(AtariEnvironment, name="atari_env"), native=make_games)
