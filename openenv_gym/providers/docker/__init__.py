"""Servers in containers of a Docker daemon. Imported only by those who use them."""

from openenv_gym.providers.docker.container import DockerServer, Reach
from openenv_gym.providers.docker.provider import DockerProvider


__all__ = ["DockerProvider", "DockerServer", "Reach"]
