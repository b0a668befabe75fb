"""Echo on the real OpenEnv package: ``python echo_server.py PORT``.

What the package brings of an environment with tools, with the tools of OpenEnv's echo environment.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import uvicorn
from fastmcp import FastMCP
from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.mcp_environment import MCPEnvironment
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation
from openenv.core.env_server.types import Action, Observation, State


class Echo(MCPEnvironment):
    """Sends back messages."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        mcp = FastMCP("echo")

        @mcp.tool
        def echo_message(message: str) -> str:
            """Echo a message."""
            return message

        @mcp.tool
        def echo_with_length(message: str) -> dict[str, Any]:
            """Echo a message, with its length."""
            return {"message": message, "length": len(message)}

        @mcp.tool
        def dawdle(place: str) -> str:
            """Tell by a file in a folder that this has begun, and wait there for another one."""
            Path(place, "begun").touch()
            end_s = time.monotonic() + 200
            while not Path(place, "enough").exists() and time.monotonic() < end_s:
                time.sleep(0.02)
            return "done"

        @mcp.tool
        def fail() -> str:
            """Fail."""
            raise ValueError("out of luck")

        super().__init__(mcp)
        self.current = State(episode_id=None, step_count=0)

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, **more: Any
    ) -> Observation:
        """Begin an episode."""
        self.current = State(episode_id=episode_id or "none", step_count=0)
        noted = {"status": "ready", "message": "Echo environment ready!"}
        return Observation(done=False, reward=0.0, metadata=noted)

    def step(self, action: Action, timeout_s: float | None = None, **more: Any) -> Observation:
        """Count, and do what the package does."""
        self.current.step_count += 1
        return super().step(action, timeout_s=timeout_s, **more)

    async def step_async(
        self, action: Action, timeout_s: float | None = None, **more: Any
    ) -> Observation:
        """Count, and do what the package does."""
        self.current.step_count += 1
        return await super().step_async(action, timeout_s=timeout_s, **more)

    def _step_impl(
        self, action: Action, timeout_s: float | None = None, **more: Any
    ) -> Observation:
        return Observation(done=False, reward=0.0, metadata={"error": "tools only"})

    @property
    def state(self) -> State:
        """What there is to tell."""
        return self.current


if __name__ == "__main__":
    app = create_fastapi_app(Echo, CallToolAction, CallToolObservation, max_concurrent_envs=4)
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
