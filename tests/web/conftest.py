"""Servers of several processes, and servers with a page."""

from tests.server.workers.conftest import serve


__all__ = ["serve"]
