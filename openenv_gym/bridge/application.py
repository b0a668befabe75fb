"""An OpenEnv server as an application that can be served in this process."""

from __future__ import annotations

from openenv_gym.bridge.environment import BridgeEnvironment
from openenv_gym.bridge.remote_server import RemoteServer
from openenv_gym.server import Application


__all__ = ["bridge_app"]


def bridge_app(server: RemoteServer) -> Application:
    """Make an application whose environments are sessions of an OpenEnv server."""

    def environment() -> BridgeEnvironment:
        return BridgeEnvironment(server)

    return Application(
        environment,
        name=str(server.address),
        description=f"What the OpenEnv server at {server.address} serves",
        waits_elsewhere=True,
    )
