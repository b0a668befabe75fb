"""The application that a server serves (named in `openenv.yaml`)."""

from dataclasses import replace
from typing import Any

from chess_env.server.chess_environment import ChessEnvironment
from openenv_gym.server import create_app


__all__ = ["app"]


def _waits_for_an_engine(options: dict[str, Any]) -> bool:
    """Most of a step is the search of another process, beside which others can take steps."""
    return options.get("opponent", "random") not in ("random", "self")


app = replace(create_app(ChessEnvironment, name="chess_env"), releases_gil=_waits_for_an_engine)
