"""Peer: ``docker run --rm`` of the image that environments are built on; no options.

The daemon is asked through docker-py, which is loaded and connected when the clock starts.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any

from benchmarks.drivers.common import Round, serve
from openenv_gym.providers.docker.daemon import connect_daemon
from openenv_gym.providers.docker.images import BaseImages, build_base


def start(options: dict[str, Any]) -> Generator[Round, None, None]:
    """Yield the rounds."""
    client = connect_daemon()
    build_base(client)
    image = BaseImages().run

    def take_round(steps: int) -> float:
        begin = time.perf_counter()
        for _ in range(steps):
            client.containers.run(image, ["python", "-c", "pass"], remove=True)
        return time.perf_counter() - begin

    yield take_round


if __name__ == "__main__":
    serve(start)
