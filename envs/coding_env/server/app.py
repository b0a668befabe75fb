"""The application that a server serves (named in `openenv.yaml`)."""

import dataclasses

from coding_env.server.coding_environment import CodingEnvironment
from openenv_gym.server import create_app


__all__ = ["app"]

# Steps wait for programs that run elsewhere, so those of a vector are all on their way at once.
app = dataclasses.replace(create_app(CodingEnvironment, name="coding_env"), waits_elsewhere=True)
