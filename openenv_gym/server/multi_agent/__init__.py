"""Environments with several agents: hosted for one client, or shared by several."""

from openenv_gym.server.multi_agent.hosting import as_api, make_pettingzoo
from openenv_gym.server.multi_agent.opening import open_multi_agent
from openenv_gym.server.multi_agent.options import MultiAgentOptions, read_multi_agent_options
from openenv_gym.server.multi_agent.seats import Games


__all__ = [
    "Games",
    "MultiAgentOptions",
    "as_api",
    "make_pettingzoo",
    "open_multi_agent",
    "read_multi_agent_options",
]
