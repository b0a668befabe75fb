"""Clients with OpenEnv's API, for our servers and for those of OpenEnv."""

from openenv_gym.openenv.auto import AutoAction, AutoEnv, EnvironmentInfo, find_environments
from openenv_gym.openenv.env_client import EnvClient
from openenv_gym.openenv.generic_client import GenericAction, GenericEnvClient
from openenv_gym.openenv.mcp_client import MCPToolClient, ToolEnvObservation
from openenv_gym.openenv.sync_client import SyncEnvClient


__all__ = [
    "AutoAction",
    "AutoEnv",
    "EnvClient",
    "EnvironmentInfo",
    "GenericAction",
    "GenericEnvClient",
    "MCPToolClient",
    "SyncEnvClient",
    "ToolEnvObservation",
    "find_environments",
]
