"""Registers ``benchmarks/TrivialScreen-v0``: `envs/trivial_env`, wherever a provider serves it.

The package is not installed: its folder on the module path is enough for a server in a process,
and for its image, which the Docker provider builds as it does that of any environment.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import gymnasium

from openenv_gym.registration import find_manifest
from openenv_gym.registration.discovery import manifest_entries
from openenv_gym.registration.make import make_env
from openenv_gym.registration.make_vector import make_vector_env


__all__ = ["make", "make_vector"]

_PACKAGE = "trivial_env"
_FOLDER = str(Path(__file__).resolve().parent / "envs")
if _FOLDER not in sys.path:
    sys.path.append(_FOLDER)
_ENTRY = manifest_entries(find_manifest(_PACKAGE)[0], _PACKAGE)[0]


def make(**kwargs: Any) -> gymnasium.Env[Any, Any]:
    """Make one; see `openenv_gym.registration.make.make_env`."""
    return make_env(_ENTRY, **kwargs)


def make_vector(**kwargs: Any) -> gymnasium.vector.VectorEnv[Any, Any, Any]:
    """Make several; see `openenv_gym.registration.make_vector.make_vector_env`."""
    return make_vector_env(_ENTRY, **kwargs)


gymnasium.register(
    "benchmarks/TrivialScreen-v0",
    entry_point="benchmarks.screens:make",
    vector_entry_point="benchmarks.screens:make_vector",
)
