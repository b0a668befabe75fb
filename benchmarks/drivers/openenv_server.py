# mypy: disable-error-code="import-not-found"
"""Server of `benchmarks.drivers.openenv`, as its own environments' `app.py` makes it.

Argument: the kind, of `openenv_models.KINDS`. Prints its address when it is ready.
"""

from __future__ import annotations

import socket
import sys

import uvicorn
from openenv.core.env_server import create_app

from benchmarks.drivers.common import until_stdin_ends
from benchmarks.drivers.openenv_models import KINDS, TrivialAction


def main(kind: str) -> None:
    """Serve until standard input ends."""
    environment, _, observation = KINDS[kind]
    app = create_app(environment, TrivialAction, observation, env_name=kind)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    # Bound here rather than by uvicorn, so that the system picks a free port without a race.
    listener = socket.create_server(("127.0.0.1", 0))
    until_stdin_ends(lambda: setattr(server, "should_exit", True))
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    server.run(sockets=[listener])


if __name__ == "__main__":
    main(sys.argv[1])
