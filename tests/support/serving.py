"""Servers of this library in the test's own process, on a free port."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from openenv_gym.server import Application, Server, create_app


__all__ = ["serving"]


@contextlib.contextmanager
def serving(app: Application | Callable[..., Any], **options: Any) -> Iterator[str]:
    """Serve an application or what makes environments; give the URL.

    Args:
        app: What is served.
        **options: Options of the server.
    """
    if not isinstance(app, Application):
        app = create_app(app)
    server = Server(app, **options)
    host, port = server.listen_tcp("127.0.0.1", 0)
    server.start()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.stop()
