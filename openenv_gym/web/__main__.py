"""The page's program: gets browsers' connections from the server, and answers them.

It is started by `openenv_gym.server.web` with two channels and, on standard input, a map in JSON:
``parent`` (a process id), ``token``, ``tls`` and ``facts``.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys


__all__ = ["main"]


def main() -> int:
    """Answer browsers until the server is gone; return the exit code."""
    from openenv_gym.server.process import close_to_others, die_with

    told = json.load(sys.stdin)
    die_with(told["parent"])
    close_to_others()  # the token is in memory
    incoming, outgoing = (socket.socket(fileno=int(fd)) for fd in sys.argv[1:3])
    for channel in (incoming, outgoing):
        os.set_inheritable(channel.fileno(), False)
    # The server's, who tells us; not ignored, which programs that we start would inherit.
    signal.signal(signal.SIGINT, lambda signum, frame: None)

    # Gradio would tell its makers that it runs, and look for newer versions.
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    os.environ["HF_HUB_OFFLINE"] = "1"

    from openenv_gym.web.app import make_app
    from openenv_gym.web.handed import answer_handed
    from openenv_gym.web.service import Service
    from openenv_gym.web.tabs import Tabs

    tabs = Tabs(Service(outgoing, told["token"], told["facts"]))
    asyncio.run(answer_handed(make_app(tabs), incoming, tls=told["tls"]))
    tabs.close()
    os._exit(0)  # threads that wait for an environment must not keep it alive


if __name__ == "__main__":
    sys.exit(main())
