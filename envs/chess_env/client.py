"""The client of the chess environment, for our servers and for those of OpenEnv."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import BaseModel

from chess_env.models import ChessAction, ChessObservation, ChessState
from openenv_gym.openenv import MCPToolClient


__all__ = ["ChessEnv"]


class ChessEnv(MCPToolClient):
    """Plays chess with text: moves in UCI notation, positions in FEN.

    ::

        with ChessEnv(base_url="http://localhost:8000").sync() as client:
            print(client.reset(seed=1).observation.legal_moves)
            print(client.step(ChessAction(move="e2e4")).observation.fen)
            print(client.state().move_history)

    With other options (``action="discrete"``, ``observation="planes"``) use `gymnasium.make`. A
    server of OpenEnv has no tools.
    """

    action_model: ClassVar[type[BaseModel] | None] = ChessAction
    observation_model: ClassVar[type[BaseModel] | None] = ChessObservation
    state_model: ClassVar[Any] = ChessState
