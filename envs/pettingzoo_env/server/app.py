"""The application that a server serves (named in `openenv.yaml`)."""

from __future__ import annotations

from typing import Any, NoReturn

from openenv_gym.errors import InvalidOptionError
from openenv_gym.server import create_app
from openenv_gym.server.multi_agent import make_pettingzoo


__all__ = ["app"]


def _single(**options: Any) -> NoReturn:
    """Refuse who asks for an environment with one agent."""
    raise InvalidOptionError(
        "PettingZoo's environments have several agents.",
        field="multi_agent",
        hint="Use openenv_gym.pettingzoo.aec_env, parallel_env or join.",
    )


app = create_app(
    _single,
    name="pettingzoo_env",
    description="Any PettingZoo environment",
    multi_agent=make_pettingzoo,
)
