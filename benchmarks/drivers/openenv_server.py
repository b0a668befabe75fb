# mypy: disable-error-code="import-not-found"
"""Server of `openenv` 0.10, as its own environments' `app.py` makes it.

Arguments: the kind, of `openenv_models.KINDS`, and how many sessions there may be. Prints its
address when it is ready.
"""

from __future__ import annotations

import socket
import sys

import uvicorn
from openenv.core.env_server import create_app

from benchmarks.drivers.common import raise_descriptor_limit, until_stdin_ends
from benchmarks.drivers.openenv_models import KINDS, TrivialAction


def main(kind: str, sessions: int) -> None:
    """Serve until standard input ends."""
    environment, _, observation = KINDS[kind]
    raise_descriptor_limit(sessions)
    app = create_app(
        environment, TrivialAction, observation, env_name=kind, max_concurrent_envs=sessions
    )
    # No keep-alive pings: a contender that waits for its turn does not answer any.
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", ws_ping_interval=None))
    # Bound here rather than by uvicorn, so that the system picks a free port without a race.
    listener = socket.create_server(("127.0.0.1", 0))
    until_stdin_ends(lambda: setattr(server, "should_exit", True))
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    server.run(sockets=[listener])


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
