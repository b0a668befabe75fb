"""A way out of a server without a network, to named hosts and nowhere else."""

from openenv_gym.providers.egress.helper import EgressProxy


__all__ = ["EgressProxy"]
