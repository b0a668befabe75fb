"""Gymnasium's side of a session: ordinary environments whose world is on a server."""

from openenv_gym.env.remote_env import RemoteEnv
from openenv_gym.env.session import RemoteSession


__all__ = ["RemoteEnv", "RemoteSession"]
