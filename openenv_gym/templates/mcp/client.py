"""The typed client; agents need none, they have MCP."""

from __future__ import annotations

from openenv_gym import MCPToolClient


__all__ = ["TemplateEnv"]


class TemplateEnv(MCPToolClient):
    """Calls the tools of the template environment on a server.

    ::

        with TemplateEnv(base_url="http://localhost:8000").sync() as client:
            client.reset(seed=0)
            print(client.call_tool("walk", steps=2))
    """
