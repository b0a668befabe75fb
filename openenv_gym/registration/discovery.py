"""What this installation adds to the catalogue, found without importing any environment.

An environment package names itself in the entry-point group ``openenv_gym.environments``::

    [project.entry-points."openenv_gym.environments"]
    chess_env = "chess_env"

and keeps its `openenv.yaml` beside its ``__init__.py``. That one file is all that is read.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from gymnasium.envs.registration import registry

from openenv_gym.errors import ManifestError, UnknownEnvironmentError
from openenv_gym.registration.catalogue import Catalogue, CatalogueEntry, base_name, our_id


if TYPE_CHECKING:
    from collections.abc import Container

    from openenv_gym.models.manifest import Manifest

__all__ = [
    "ENTRY_POINT_GROUP",
    "discover",
    "find_manifest",
    "local_gymnasium_entries",
    "manifest_entries",
]

ENTRY_POINT_GROUP = "openenv_gym.environments"
"""Entry-point group in which environment packages name themselves."""

_LOG = logging.getLogger(__name__)


def find_manifest(package: str) -> tuple[Manifest, Path]:
    """Find and read the manifest of an environment package, without importing the package.

    The package need not be installed: being on ``sys.path`` (``PYTHONPATH=envs``) is enough.

    Args:
        package: Import name, such as ``echo_env``.

    Returns:
        The manifest and the path of its file.

    Raises:
        UnknownEnvironmentError: If no such package can be imported here.
        ManifestError: If it has no manifest, or one that does not hold.
    """
    # Pydantic and YAML are imported only where a manifest is read.
    from openenv_gym.models.manifest import load_manifest

    path = _manifest_path(package)
    return load_manifest(path), path


def manifest_entries(
    manifest: Manifest, package: str, *, distribution: str | None = None
) -> list[CatalogueEntry]:
    """Return what the catalogue would say of the ids in a manifest.

    Args:
        manifest: The manifest.
        package: Import package that it belongs to.
        distribution: Distribution that installed it, for a manifest that does not name one.
    """
    return [
        CatalogueEntry(
            id=our_id(entry.id),
            package=package,
            distribution=manifest.distribution or distribution,
            image=manifest.image,
            render_modes=entry.render_modes,
            render_fps=entry.render_fps,
            max_episode_steps=entry.max_episode_steps,
            reward_threshold=entry.reward_threshold,
            nondeterministic=entry.nondeterministic,
            kwargs=dict(entry.kwargs),
            untrusted=manifest.untrusted,
            thread_affinity=manifest.thread_affinity,
            resets_fully=manifest.resets_fully,
            vectorized=manifest.vectorized,
            step_us=manifest.step_us,
        )
        for entry in manifest.ids
    ]


def discover(catalogue: Catalogue) -> dict[str, CatalogueEntry]:
    """Return the entries of installed environment packages that the catalogue does not know.

    A package that is broken, or that claims a name of another package, is named in a logged
    warning and left out: it must not take ``import openenv_gym`` down with it.

    Args:
        catalogue: What is known already; manifests of its packages are not read.
    """
    found: dict[str, CatalogueEntry] = {}
    owners = {base_name(entry.id): entry.package for entry in catalogue.entries.values()}
    for package, distribution in _installed_packages(skip=catalogue.packages):
        try:
            manifest, path = find_manifest(package)
            entries = manifest_entries(manifest, package, distribution=distribution)
        # A path hook or a half-removed package raises whatever it likes.
        except Exception as error:
            _LOG.warning("Environment package %r is left out: %s", package, error)
            continue
        for entry in entries:
            # Another version of a taken name is refused too: Gymnasium would call the other
            # package's id out of date.
            owner = owners.setdefault(base_name(entry.id), package)
            if owner == package:
                found[entry.id] = entry
                continue
            _LOG.warning(
                "Id %r of environment package %r is left out: the name belongs to %s. "
                "Rename it in %s.",
                entry.id,
                package,
                f"package {owner!r}" if owner else "this library",
                path,
            )
    return found


def local_gymnasium_entries(catalogue: Catalogue) -> dict[str, CatalogueEntry]:
    """Return ids that the installed Gymnasium ships and the catalogue, of another version, lacks.

    Args:
        catalogue: What is known already.
    """
    entries = {}
    # A copy: another thread may register meanwhile.
    for spec in list(registry.values()):
        # Left out by this rule: the compatibility shims GymV21Environment and GymV26Environment,
        # whose entry point is a function that refers to another package.
        if not str(spec.entry_point).startswith("gymnasium.envs."):
            continue
        if (env_id := our_id(spec.id)) not in catalogue.entries:
            entries[env_id] = CatalogueEntry(
                id=env_id,
                package="gymnasium",
                **catalogue.packages["gymnasium"],
                hosted=spec.id,
                max_episode_steps=spec.max_episode_steps,
                reward_threshold=spec.reward_threshold,
                nondeterministic=spec.nondeterministic,
                order_enforce=spec.order_enforce,
                disable_env_checker=spec.disable_env_checker,
                kwargs=spec.kwargs,
            )
    return entries


def _installed_packages(skip: Container[str]) -> list[tuple[str, str | None]]:
    """Return import packages, each with the distribution that names it."""
    packages: dict[str, str | None] = {}
    try:
        points = list(importlib.metadata.entry_points(group=ENTRY_POINT_GROUP))
    # Metadata of any distribution, with this library or not, may be broken.
    except Exception as error:
        _LOG.warning("Installed environment packages cannot be listed: %s", error)
        return []
    for point in points:
        try:
            if point.module not in skip:
                packages.setdefault(point.module, point.dist.name if point.dist else None)
        except Exception as error:
            _LOG.warning("Entry point %r (%r) is left out: %s", point.name, point.value, error)
    # Sorted, so that of two packages that claim one name the same one wins everywhere.
    return sorted(packages.items(), key=lambda item: item[0])


def _manifest_path(package: str) -> Path:
    top, *rest = package.split(".")
    try:
        # Of the top-level package only: to find a submodule, its parent is imported.
        spec = importlib.util.find_spec(top)
    except ValueError:
        spec = None
    if spec is None:
        raise UnknownEnvironmentError(
            f"No environment package {package!r} is installed here.",
            field="package",
            hint="Install its distribution, or put the directory that holds it on PYTHONPATH.",
            data={"package": package},
        )
    directories = [Path(place, *rest) for place in spec.submodule_search_locations or ()]
    for directory in directories:
        if (path := directory / "openenv.yaml").is_file():
            return path
    places = ", ".join(map(str, directories)) or str(spec.origin)
    raise ManifestError(
        f"Package {package!r} has no manifest; expected openenv.yaml in {places}.",
        hint="Put it beside the package's `__init__.py` and name it as package data, so that it "
        "is installed.",
        data={"package": package},
    )
