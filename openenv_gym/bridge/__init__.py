"""An OpenEnv server as an environment of ours: its JSON behind our spaces and our protocol."""

from openenv_gym.bridge.application import bridge_app
from openenv_gym.bridge.environment import BridgeEnvironment
from openenv_gym.bridge.remote_server import RemoteServer
from openenv_gym.bridge.schemas import Schemas, fetch_schemas


__all__ = ["BridgeEnvironment", "RemoteServer", "Schemas", "bridge_app", "fetch_schemas"]
