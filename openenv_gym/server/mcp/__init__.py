"""Tools of environments, and the ways in which agents list and call them."""

from openenv_gym.server.mcp.environment import MCPEnvironment
from openenv_gym.server.mcp.text import ToolCallText, ToolResultText
from openenv_gym.server.mcp.tools import tool


__all__ = ["MCPEnvironment", "ToolCallText", "ToolResultText", "tool"]
