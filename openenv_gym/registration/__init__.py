"""Registers ids with Gymnasium and finds what stands behind them.

An id leads to a catalogue entry (`catalogue`, extended by `discovery`); its spec names a creator
(`creators`), which calls `make`. Importing this package starts and imports no environment.
"""

from __future__ import annotations

import difflib
import functools
from typing import TYPE_CHECKING

from gymnasium.envs.registration import EnvSpec, registry

from openenv_gym.errors import UnknownEnvironmentError
from openenv_gym.registration.catalogue import (
    NAMESPACE,
    CatalogueEntry,
    base_name,
    load_catalogue,
)
from openenv_gym.registration.discovery import (
    discover,
    find_manifest,
    local_gymnasium_entries,
)


if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

__all__ = [
    "CatalogueEntry",
    "find_manifest",
    "forget_environments",
    "known_environments",
    "lookup",
    "register_all",
]


def register_all() -> None:
    """Register every known id with Gymnasium; further calls change nothing.

    An id that is registered already keeps its spec: it is ours from an earlier call, or the
    user's own. Hence entries go into the registry directly; `gymnasium.register` would warn.
    """
    versions = {base_name(env_id) for env_id in list(registry)}
    for entry in known_environments().values():
        if entry.id not in registry and not _is_of_newer_gymnasium(entry, versions):
            registry[entry.id] = _spec(entry)


@functools.cache
def known_environments() -> Mapping[str, CatalogueEntry]:
    """Return every id known here: the catalogue and what this installation adds to it."""
    catalogue = load_catalogue()
    return {
        **local_gymnasium_entries(catalogue),
        **discover(catalogue),
        **catalogue.entries,
    }


def forget_environments() -> None:
    """Have the next look find what was installed meanwhile."""
    known_environments.cache_clear()


def lookup(env_id: str) -> CatalogueEntry:
    """Return the entry of an id.

    Args:
        env_id: The id, with or without the namespace: ``openenv/CartPole-v1``, ``CartPole-v1``.

    Raises:
        UnknownEnvironmentError: If it is not known here.
    """
    known = known_environments()
    full_id = env_id if env_id.startswith(f"{NAMESPACE}/") else f"{NAMESPACE}/{env_id}"
    if full_id in known:
        return known[full_id]
    near = _nearest(full_id, known)
    raise UnknownEnvironmentError(
        f"No environment {full_id!r} is known here.",
        field="id",
        hint=f"Did you mean {near!r}?" if near else "Is the package that brings it installed?",
        data={"id": full_id},
    )


def _nearest(full_id: str, known: Iterable[str]) -> str | None:
    """Return the id that is meant, maybe: by name alone, for namespace and version are all alike.

    Of several versions it is the one that was asked for, or else the last.
    """
    by_name: dict[str, list[str]] = {}
    for each in known:
        by_name.setdefault(base_name(each).rpartition("/")[2], []).append(each)
    wanted = base_name(full_id).rpartition("/")[2]
    for name in difflib.get_close_matches(wanted, by_name, n=1):
        version = full_id.rpartition("-")[2]
        same = (each for each in by_name[name] if each.rpartition("-")[2] == version)
        return next(same, by_name[name][-1])
    return None


def _is_of_newer_gymnasium(entry: CatalogueEntry, names: Container[str]) -> bool:
    """Tell whether the installed Gymnasium has an environment, but not this version of it.

    Gymnasium would call the version that it has out of date, which it does not say of its own.
    """
    hosted = entry.hosted
    if entry.package != "gymnasium" or hosted is None or hosted in registry:
        return False
    return base_name(hosted) in names


def _spec(entry: CatalogueEntry) -> EnvSpec:
    return EnvSpec(
        id=entry.id,
        entry_point=f"{__name__}.creators:{entry.name}",
        reward_threshold=entry.reward_threshold,
        nondeterministic=entry.nondeterministic,
        max_episode_steps=entry.max_episode_steps,
        order_enforce=entry.order_enforce,
        disable_env_checker=entry.disable_env_checker,
        vector_entry_point=f"{__name__}.vector_creators:{entry.name}",
        kwargs=dict(entry.kwargs),
    )
