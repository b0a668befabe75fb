"""Servers in pods of a Kubernetes cluster. Imported only by those who use them."""

from openenv_gym.providers.kubernetes.provider import KubernetesProvider


__all__ = ["KubernetesProvider"]
