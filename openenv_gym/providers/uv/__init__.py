"""Servers in virtual environments of their own, made by uv."""

from openenv_gym.providers.uv.provider import UvProvider


__all__ = ["UvProvider"]
