"""Environments that are known here, by the name of their package. Listing them imports none."""

from __future__ import annotations

import difflib
import importlib.metadata
import importlib.util
import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from openenv_gym import errors
from openenv_gym.registration import CatalogueEntry, find_manifest, known_environments


if TYPE_CHECKING:
    from openenv_gym.models.manifest import Manifest

__all__ = ["EnvironmentInfo", "find_environment", "find_environments", "package_name"]

_BUILT_IN = "gymnasium"  # hosts any id, and is no environment by itself
_OPENENV = "openenv-"
_NO_ENVIRONMENTS = ("openenv-core", "openenv-gym")

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class EnvironmentInfo:
    """What is known of an environment package before it is imported.

    Attributes:
        key: The short name: ``echo``.
        name: The name in its manifest: ``echo_env``.
        package: What to import: ``echo_env``.
        distribution: What to `pip install`; None where nobody says.
        version: Version of the environment.
        description: One line about it.
        client: Its client: ``Class``, or ``module:Class``; None leaves it to the convention.
        action: Its action model, likewise.
        observation: Its observation model, likewise.
        image: Name of its container image.
        ids: Gymnasium ids that it brings.
        spec_version: Version of the manifest's form; None without a manifest.
        installed: It can be imported here. One that cannot still runs in its container.
    """

    key: str
    name: str
    package: str
    distribution: str | None = None
    version: str = ""
    description: str = ""
    client: str | None = None
    action: str | None = None
    observation: str | None = None
    image: str | None = None
    ids: tuple[str, ...] = ()
    spec_version: int | None = None
    installed: bool = True

    def class_name(self, kind: str) -> str:
        """Return the name of a class, as the manifest or else OpenEnv's convention has it.

        Args:
            kind: ``"client"``, ``"action"`` or ``"observation"``.
        """
        named: str | None = getattr(self, kind)
        if named is not None:
            return named.rpartition(":")[2]
        words = self.name.removesuffix("_env").replace("-", "_").split("_")
        return "".join(map(str.capitalize, words)) + _ENDINGS[kind]


_ENDINGS = {"client": "Env", "action": "Action", "observation": "Observation"}


def find_environments() -> dict[str, EnvironmentInfo]:
    """Return the environments that are known here, by key, in alphabetical order.

    These are the packages of the catalogue, installed or not; installed packages that bring ids
    (entry-point group ``openenv_gym.environments``); and OpenEnv's own, which are distributions
    named ``openenv-NAME``.
    """
    found: dict[str, EnvironmentInfo] = {}
    for package, entries in _by_package().items():
        info = _of_entries(package, entries)
        found[info.key] = info
    taken = {info.package for info in found.values()}
    for distribution, version, package in _openenv_packages():
        if package not in taken:
            info = _of_package(package, distribution, version)
            found.setdefault(info.key, info)
    return dict(sorted(found.items()))


def find_environment(name: str) -> EnvironmentInfo:
    """Return an environment by one of its names: ``echo``, ``echo-env``, ``echo_env``.

    Raises:
        UnknownEnvironmentError: There is none of that name; the hint has one that is similar.
    """
    found = find_environments()
    wanted = _key(name)
    if wanted in found:
        return found[wanted]
    for info in found.values():
        if package_name(name) == info.package:
            return info
    near = difflib.get_close_matches(wanted, found, n=1)
    raise errors.UnknownEnvironmentError(
        f"No environment {name!r:.80} is known here, only {', '.join(found)}.",
        field="name",
        hint=f"Did you mean {near[0]!r}?"
        if near
        else "Install its package, name a repository of the Hub as 'user/name', or pass "
        "base_url= of a server that runs already.",
        data={"name": name[:200], "known": list(found)},
    )


def package_name(name: str) -> str:
    """Return the import package that a name stands for: ``echo_env`` for ``echo-env``."""
    return f"{_key(name)}_env"


def _key(name: str) -> str:
    return name.strip().lower().replace("-", "_").removesuffix("_env")


def _by_package() -> dict[str, list[CatalogueEntry]]:
    packages: dict[str, list[CatalogueEntry]] = {}
    for entry in known_environments().values():
        if entry.package and entry.package != _BUILT_IN:
            packages.setdefault(entry.package, []).append(entry)
    return packages


def _of_entries(package: str, entries: list[CatalogueEntry]) -> EnvironmentInfo:
    first = entries[0]
    known = EnvironmentInfo(
        key=_key(package),
        name=package,
        package=package,
        distribution=first.distribution,
        image=first.image,
        ids=tuple(sorted(entry.id for entry in entries)),
        installed=_is_installed(package),
    )
    manifest = _manifest_of(package) if known.installed else None
    return known if manifest is None else _with_manifest(known, manifest)


def _of_package(package: str, distribution: str, version: str) -> EnvironmentInfo:
    """Describe a package of OpenEnv, which may have no manifest."""
    known = EnvironmentInfo(
        key=_key(package),
        name=package,
        package=package,
        distribution=distribution,
        version=version,
        image=f"{_key(package).replace('_', '-')}-env:latest",
    )
    manifest = _manifest_of(package)
    if manifest is None:
        return known
    named = replace(_with_manifest(known, manifest), distribution=distribution, ids=())
    return replace(named, image=manifest.default_image or known.image)


def _with_manifest(known: EnvironmentInfo, manifest: Manifest) -> EnvironmentInfo:
    return replace(
        known,
        key=_key(manifest.name),
        name=manifest.name,
        version=manifest.version,
        description=manifest.description,
        client=manifest.client,
        action=manifest.action,
        observation=manifest.observation,
        spec_version=manifest.spec_version,
    )


def _manifest_of(package: str) -> Manifest | None:
    try:
        return find_manifest(package)[0]
    except errors.ManifestError as error:
        if "file" in error.data:  # there is one, and it does not hold
            _LOG.warning("The manifest of %r is left out: %s", package, error)
        return None


def _is_installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package.partition(".")[0]) is not None
    except (ImportError, ValueError):
        return False


def _openenv_packages() -> Iterator[tuple[str, str, str]]:
    """Yield OpenEnv's environment packages: distribution, version, import package."""
    for each in importlib.metadata.distributions():
        try:
            name, version = each.metadata["Name"] or "", each.version
        except Exception:  # metadata of any distribution may be broken
            continue
        plain = name.lower().replace("_", "-")
        if not plain.startswith(_OPENENV) or plain.startswith(_NO_ENVIRONMENTS):
            continue
        package = name[len(_OPENENV) :].replace("-", "_")
        if package.isidentifier() and _is_installed(package):
            yield name, version, package
