"""Servers as tasks of services of Docker Swarm. Imported only by those who use them."""

from openenv_gym.providers.swarm.provider import SwarmProvider
from openenv_gym.providers.swarm.server import SwarmServer


__all__ = ["SwarmProvider", "SwarmServer"]
