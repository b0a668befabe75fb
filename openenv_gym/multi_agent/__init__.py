"""PettingZoo's side of a session: environments with several agents whose world is on a server."""

from openenv_gym.multi_agent.aec import RemoteAECEnv
from openenv_gym.multi_agent.parallel import RemoteParallelEnv
from openenv_gym.multi_agent.seat import EndReason, SeatEnv
from openenv_gym.multi_agent.vector import RemoteParallelVectorEnv


__all__ = ["EndReason", "RemoteAECEnv", "RemoteParallelEnv", "RemoteParallelVectorEnv", "SeatEnv"]
