"""What a name stands for: an environment that is known here, an id, a Space, or a server."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from openenv_gym import errors
from openenv_gym.openenv.auto.hub import HubRepo, parse_repo
from openenv_gym.openenv.auto.install import install_repo
from openenv_gym.openenv.auto.installed import EnvironmentInfo, find_environment, find_environments
from openenv_gym.registration import lookup
from openenv_gym.registration.catalogue import NAMESPACE


if TYPE_CHECKING:
    from openenv_gym.registration import CatalogueEntry

__all__ = ["Named", "resolve"]


@dataclass(frozen=True, kw_only=True)
class Named:
    """What a name stands for.

    Attributes:
        info: The environment package, where one is known.
        entry: The id, where it is one.
        repo: The repository on the Hub, where it is one.
        url: The server, where it is one.
    """

    info: EnvironmentInfo | None = None
    entry: CatalogueEntry | None = None
    repo: HubRepo | None = None
    url: str | None = None


def resolve(name: str, *, trust_remote_code: bool = False, any_name: bool = False) -> Named:
    """Find out what a name stands for.

    In this order: an id (``openenv/Echo-v0``, ``CartPole-v1``), a repository of the Hub, a server's
    URL, an environment (``echo``, ``echo-env``, ``echo_env``). A repository has the package that
    is called like it, where one is installed.

    Args:
        name: The name.
        trust_remote_code: Install the package of a repository, where none is.
        any_name: It may be a name that is unknown here, since the server is told apart.

    Raises:
        InvalidOptionError: It is no name at all.
        UnknownEnvironmentError: It stands for nothing.
        ConfigurationError: The package of a repository cannot be installed.
    """
    name = str(name).strip()
    if not name:
        raise errors.InvalidOptionError("An empty name is none of an environment.", field="name")
    entry = _entry_of(name)
    if entry is not None:
        return Named(entry=entry, info=_info_of(entry.package))
    repo = parse_repo(name)
    if repo is None:
        if "://" in name:
            return Named(url=name)
        try:
            return Named(info=find_environment(name))
        except errors.UnknownEnvironmentError:
            if any_name:
                return Named()
            raise
    try:
        return Named(repo=repo, info=_installed(repo))
    except errors.UnknownEnvironmentError:
        return Named(repo=repo, info=install_repo(repo) if trust_remote_code else None)


def _entry_of(name: str) -> CatalogueEntry | None:
    try:
        return lookup(name)
    except errors.UnknownEnvironmentError:
        if re.fullmatch(rf"({NAMESPACE}/)?[\w.-]+-v\d+", name):
            raise  # an id that is misspelt, says its hint
        return None


def _info_of(package: str | None) -> EnvironmentInfo | None:
    return next((each for each in find_environments().values() if each.package == package), None)


def _installed(repo: HubRepo) -> EnvironmentInfo:
    info = find_environment(repo.name)
    if not info.installed:
        raise errors.UnknownEnvironmentError(f"{info.package} is not installed.")
    return info
