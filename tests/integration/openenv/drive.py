"""OpenEnv's own client on a server: ``python drive.py URL JSON``, by a Python that has OpenEnv.

The argument is a list of ``["reset", arguments]``, ``["step", action]`` and ``["state"]``; what the
client returns, or raises, is printed as JSON.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from openenv import GenericEnvClient


def main() -> None:
    """Do what the command line says."""
    url, script = sys.argv[1], json.loads(sys.argv[2])
    answers: list[Any] = []
    with GenericEnvClient(base_url=url).sync() as env:
        for name, *arguments in script:
            try:
                if name == "reset":
                    answers.append(as_data(env.reset(**arguments[0])))
                elif name == "step":
                    answers.append(as_data(env.step(arguments[0])))
                else:
                    answers.append(env.state())
            except Exception as error:
                answers.append({"error": type(error).__name__, "text": str(error)})
    print(json.dumps(answers))


def as_data(result: Any) -> dict[str, Any]:
    """Return a step result."""
    return {
        "observation": result.observation,
        "reward": result.reward,
        "done": result.done,
        "metadata": result.metadata,
    }


if __name__ == "__main__":
    main()
