"""The application that a server serves (named in `openenv.yaml`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from connect4_env.server.connect4_environment import Connect4Environment
from openenv_gym.server import create_app


if TYPE_CHECKING:
    from connect4_env.server.two_players import TwoPlayers

__all__ = ["app"]


def _two_players(api: str, render_mode: str | None = None) -> TwoPlayers:
    """Make the game for two players; PettingZoo is imported when somebody asks for it."""
    from connect4_env.server.two_players import TwoPlayers

    return TwoPlayers(render_mode=render_mode)


app = create_app(Connect4Environment, name="connect4_env", multi_agent=_two_players)
