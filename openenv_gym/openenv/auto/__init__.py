"""`AutoEnv` and `AutoAction`: clients and actions by the name of an environment."""

from openenv_gym.openenv.auto.auto_action import AutoAction
from openenv_gym.openenv.auto.auto_env import AutoEnv
from openenv_gym.openenv.auto.installed import EnvironmentInfo, find_environments


__all__ = ["AutoAction", "AutoEnv", "EnvironmentInfo", "find_environments"]
