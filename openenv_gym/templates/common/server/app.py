"""The application that a server serves (named in `openenv.yaml`), and the script `server`."""

import sys

from openenv_gym.server import create_app
from openenv_gym.server.__main__ import main as serve

from template_env.server.template_environment import TemplateEnvironment


__all__ = ["app", "main"]

app = create_app(TemplateEnvironment, name="template_env")


def main() -> None:
    """Serve the environment: ``server --host 127.0.0.1 --port 8000``; ``--help`` says more."""
    sys.exit(serve(["template_env", *sys.argv[1:]]))
