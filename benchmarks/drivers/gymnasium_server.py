"""Server of this library for any Gymnasium id, on a TCP port.

Argument: how many sessions there may be. Its first line ends with its address.
"""

from __future__ import annotations

import os
import signal
import sys

from benchmarks.drivers.common import until_stdin_ends
from openenv_gym.server.__main__ import main


if __name__ == "__main__":
    until_stdin_ends(lambda: os.kill(os.getpid(), signal.SIGTERM))
    options = ["--port", "0", "--capacity", sys.argv[1], "--drain-s", "0"]
    sys.exit(main(["gymnasium", *options]))
