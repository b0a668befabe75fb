"""The client of the market, for our servers and for those of OpenEnv."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import BaseModel

from finrl_env.models import FinRLAction, FinRLObservation, FinRLState
from openenv_gym.errors import ProtocolError
from openenv_gym.openenv import EnvClient


__all__ = ["FinRLEnv"]

_CONFIG = ("stock_dim", "initial_amount", "action_space", "state_space", "tech_indicators")


class FinRLEnv(EnvClient[FinRLAction, FinRLObservation, FinRLState]):
    """Trades, and sees what became of it.

    ::

        with FinRLEnv(base_url="http://localhost:8000").sync() as client:
            result = client.reset()
            result = client.step(FinRLAction(actions=[0.5, -0.3, 0.0]))
            print(result.observation.date, result.observation.portfolio_value, result.reward)
    """

    action_model: ClassVar[type[BaseModel] | None] = FinRLAction
    observation_model: ClassVar[type[BaseModel] | None] = FinRLObservation
    state_model: ClassVar[type[BaseModel] | None] = FinRLState

    async def get_config(self) -> dict[str, Any]:
        """Return what an agent has to know of the market before it trades.

        Returns:
            What OpenEnv's server answers to ``GET /config``: ``stock_dim``, ``initial_amount``,
            ``action_space``, ``state_space`` and ``tech_indicators``.

        Raises:
            ProtocolError: The server's state does not say so; OpenEnv's does not.
            OpenEnvGymError: As `step`.
        """
        state = await self.state()
        if not state.stock_dim:
            raise ProtocolError(
                "The server's state says nothing of its market.",
                hint="A server of OpenEnv answers GET /config instead.",
            )
        return {name: getattr(state, name) for name in _CONFIG}
