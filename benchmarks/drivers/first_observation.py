"""Drives `gymnasium.make` and the first `reset`, each time in a new process.

Options: ``id``, ``kwargs``. The process has imported Gymnasium and this library when the clock
starts; what it needs beyond that is loaded while it runs. Closing is not measured.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Generator
from typing import Any

from benchmarks.drivers.common import Round, serve


_PROGRAM = """
import json, sys, time
import gymnasium, openenv_gym
options = json.loads(sys.argv[1])
begin = time.perf_counter()
env = gymnasium.make(options["id"], **options["kwargs"])
env.reset(seed=7)
print(time.perf_counter() - begin)
env.close()
"""


def start(options: dict[str, Any]) -> Generator[Round, None, None]:
    """Yield the rounds."""
    command = [sys.executable, "-c", _PROGRAM, json.dumps(options)]

    def take_round(steps: int) -> float:
        return sum(
            float(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
            for _ in range(steps)
        )

    yield take_round


if __name__ == "__main__":
    serve(start)
