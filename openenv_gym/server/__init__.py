"""The server: what an environment's author subclasses, and what serves it."""

from openenv_gym.server.application import Application, create_app, load_app
from openenv_gym.server.environment import AnyEnvironment, Environment
from openenv_gym.server.mcp import MCPEnvironment, ToolCallText, ToolResultText, tool
from openenv_gym.server.mode import Mode
from openenv_gym.server.openenv.tasks import TaskProvider
from openenv_gym.server.server import Server


__all__ = [
    "AnyEnvironment",
    "Application",
    "Environment",
    "MCPEnvironment",
    "Mode",
    "Server",
    "TaskProvider",
    "ToolCallText",
    "ToolResultText",
    "create_app",
    "load_app",
    "tool",
]
