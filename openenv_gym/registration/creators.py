"""Entry points of our specs: ``openenv_gym.registration.creators:CartPole-v1``.

A spec has to stay plain data (JSON, pickle, a spawned worker), so its entry point is text. This
module answers for each id with a callable that knows its catalogue entry; Gymnasium asks it with
``getattr(module, "CartPole-v1")``. A module for vector entry points needs the same few lines
around another function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from openenv_gym.errors import UnknownEnvironmentError
from openenv_gym.registration import lookup
from openenv_gym.registration.make import make_env


if TYPE_CHECKING:
    import gymnasium

    from openenv_gym.registration.catalogue import CatalogueEntry

__all__ = ["EnvCreator", "creator_metadata"]

_ALL_RENDER_MODES = ("human", "rgb_array", "ansi", "depth_array", "rgbd_tuple", "state_pixels")
"""Every mode of an environment that Gymnasium ships."""


class EnvCreator:
    """Makes environments of one id; what a class would be in a local spec.

    Attributes:
        entry: What the catalogue says of the id.
        metadata: What `gymnasium.make` decides by whether a render mode needs a wrapper.
    """

    def __init__(self, entry: CatalogueEntry) -> None:
        self.entry = entry
        self.metadata = creator_metadata(entry)

    def __call__(self, **kwargs: Any) -> gymnasium.Env[Any, Any]:
        """Make an environment; see `make_env` for the keyword arguments."""
        return make_env(self.entry, **kwargs)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.entry.id!r})"


def creator_metadata(entry: CatalogueEntry) -> dict[str, Any]:
    """Return Gymnasium's metadata of an id, as far as it is known before a server runs.

    ``human`` is a mode wherever there are pictures, since the client opens the window. Where the
    modes are not known, all are named: Gymnasium then lets each pass (and collects frames for
    ``rgb_array_list``), and the environment refuses what it does not have.
    """
    modes = list(_ALL_RENDER_MODES if entry.render_modes is None else entry.render_modes)
    if "rgb_array" in modes and "human" not in modes:
        modes.insert(0, "human")
    metadata: dict[str, Any] = {"render_modes": modes}
    if entry.render_fps is not None:
        metadata["render_fps"] = entry.render_fps
    return metadata


def __getattr__(name: str) -> EnvCreator:
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return EnvCreator(lookup(name))
    except UnknownEnvironmentError as error:
        # What `getattr` and `hasattr` expect of a module.
        raise AttributeError(str(error)) from None
