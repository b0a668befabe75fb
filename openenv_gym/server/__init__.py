"""The server: what an environment's author subclasses, and what serves it."""

from openenv_gym.server.application import Application, create_app, load_app
from openenv_gym.server.checks import check_choice, check_integer, check_number, merge_numbers
from openenv_gym.server.drawing import draw_cells
from openenv_gym.server.environment import AnyEnvironment, Environment
from openenv_gym.server.mcp import MCPEnvironment, ToolCallText, ToolResultText, tool
from openenv_gym.server.mode import Mode
from openenv_gym.server.openenv.tasks import TaskProvider
from openenv_gym.server.saving import SavedState
from openenv_gym.server.server import Server
from openenv_gym.server.web_interface import create_web_interface_app


__all__ = [
    "AnyEnvironment",
    "Application",
    "Environment",
    "MCPEnvironment",
    "Mode",
    "SavedState",
    "Server",
    "TaskProvider",
    "ToolCallText",
    "ToolResultText",
    "check_choice",
    "check_integer",
    "check_number",
    "create_app",
    "create_web_interface_app",
    "draw_cells",
    "load_app",
    "merge_numbers",
    "tool",
]
