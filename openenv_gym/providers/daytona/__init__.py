"""Servers in sandboxes of Daytona, a service. Imported only by those who use it."""

from openenv_gym.providers.daytona.provider import DaytonaProvider


__all__ = ["DaytonaProvider"]
