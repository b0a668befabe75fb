"""Environments for agents that are language models: the core of what trainers are given.

An `AgentPool` has the servers of an id, an `AgentSession` is one agent's place there, and `play`
is an episode of it. `openenv_gym.trl`, `openenv_gym.verl` and `openenv_gym.skyrl` are these in the
terms of one trainer each.
"""

from openenv_gym.agents.episode import Episode, Turn
from openenv_gym.agents.functions import tool_function
from openenv_gym.agents.play import Policy, Trajectory, play, play_all
from openenv_gym.agents.pool import AgentPool
from openenv_gym.agents.session import AgentSession
from openenv_gym.agents.tools import Abilities, AgentTool
from openenv_gym.agents.words import observation_text, result_text


__all__ = [
    "Abilities",
    "AgentPool",
    "AgentSession",
    "AgentTool",
    "Episode",
    "Policy",
    "Trajectory",
    "Turn",
    "observation_text",
    "play",
    "play_all",
    "result_text",
    "tool_function",
]
