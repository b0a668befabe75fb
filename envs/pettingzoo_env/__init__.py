"""PettingZoo's environments, served: any module that has ``env`` or ``parallel_env``."""

from pettingzoo_env.classics import CLASSICS


__all__ = ["CLASSICS"]
