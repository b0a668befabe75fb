"""`GenericEnvClient`: dictionaries in, dictionaries out, for every environment."""

from __future__ import annotations

from typing import Any

from openenv_gym.openenv.env_client import EnvClient


__all__ = ["GenericAction", "GenericEnvClient"]


class GenericAction(dict[str, Any]):
    """An action as a dictionary: ``GenericAction(message="Hi")``.

    Args:
        **fields: Its fields.
    """

    def __init__(self, **fields: Any) -> None:
        super().__init__(fields)

    def __repr__(self) -> str:
        return f"GenericAction({', '.join(f'{name}={value!r}' for name, value in self.items())})"


class GenericEnvClient(EnvClient[Any, dict[str, Any], dict[str, Any]]):
    """A client that needs no models: what an environment takes and tells are dictionaries.

    ::

        async with GenericEnvClient(base_url="http://localhost:8000") as client:
            result = await client.step({"message": "Hi"})
            print(result.observation["echoed_message"])
    """

    state_model = None
