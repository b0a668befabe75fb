"""Vector entry points of our specs: ``openenv_gym.registration.vector_creators:CartPole-v1``.

As in `creators`, each id has its own callable, and is found by its name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from openenv_gym.errors import UnknownEnvironmentError
from openenv_gym.registration import lookup
from openenv_gym.registration.make_vector import make_vector_env


if TYPE_CHECKING:
    from openenv_gym.registration.catalogue import CatalogueEntry
    from openenv_gym.vector import RemoteVectorEnv

__all__ = ["VectorCreator"]


class VectorCreator:
    """Makes vector environments of one id.

    Attributes:
        entry: What the catalogue says of the id.
    """

    def __init__(self, entry: CatalogueEntry) -> None:
        self.entry = entry

    def __call__(self, **kwargs: Any) -> RemoteVectorEnv:
        """Make a vector environment; see `make_vector_env` for the keyword arguments."""
        return make_vector_env(self.entry, **kwargs)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.entry.id!r})"


def __getattr__(name: str) -> VectorCreator:
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return VectorCreator(lookup(name))
    except UnknownEnvironmentError as error:
        # What `getattr` and `hasattr` expect of a module.
        raise AttributeError(str(error)) from None
