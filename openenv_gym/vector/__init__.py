"""Vector environments: many sub-environments on a few servers, moved by one request to each."""

from openenv_gym.vector.member import Member, Opened, slices
from openenv_gym.vector.partial import PartialBatch
from openenv_gym.vector.remote_vector_env import RemoteVectorEnv


__all__ = ["Member", "Opened", "PartialBatch", "RemoteVectorEnv", "slices"]
