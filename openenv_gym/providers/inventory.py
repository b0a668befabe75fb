"""Everything that this library ever started and that is still there, and how to remove it.

What is made outside a process says for which process it was made: containers in a label, processes
in their environment, directories in a file. So what has outlived its owner can be told from what
is in use, after whatever crash.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from openenv_gym import errors
from openenv_gym.providers.owner import Owner
from openenv_gym.providers.registry import PROVIDERS, provider_class


__all__ = ["Item", "Survey", "clean", "log", "survey"]

_LAST = ("directory", "guardian")  # removed when what they belong to is gone


@dataclass(frozen=True)
class Item:
    """Something that was made for a process, outside of it.

    Attributes:
        provider: Name of the provider that made it, and can remove it.
        kind: What it is, such as ``"container"``.
        name: By which it is found again.
        owner: Process that it was made for; None where it does not say.
        detail: What else helps a person to recognise it.
        lease: Until when its owner, wherever that is, has said that it is in use; None where
            owners do not say so.
    """

    provider: str
    kind: str
    name: str
    owner: Owner | None = None
    detail: str = ""
    lease: datetime.datetime | None = None

    @property
    def in_use(self) -> bool | None:
        """Whether its owner lives; None where that cannot be known here.

        One on another machine that has let its lease run out does not.
        """
        lives = None if self.owner is None else self.owner.lives()
        if lives is None and self.lease is not None:
            return False if datetime.datetime.now(datetime.timezone.utc) > self.lease else None
        return lives

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "provider": self.provider,
            "kind": self.kind,
            "name": self.name,
            "owner": None if self.owner is None else str(self.owner),
            "owner_pid": None if self.owner is None else self.owner.pid,
            "in_use": self.in_use,
            "detail": self.detail,
        }


@dataclass(frozen=True)
class Survey:
    """What was found.

    Attributes:
        items: Everything.
        unasked: Provider to the reason why it could not be asked: nothing is known of what it has.
    """

    items: tuple[Item, ...]
    unasked: dict[str, str]

    def of_owner(self, pid: int | None) -> Survey:
        """Return what a process on this machine started; everything for None."""
        if pid is None:
            return self
        items = (each for each in self.items if each.owner is not None and each.owner.pid == pid)
        return Survey(tuple(each for each in items if each.in_use is not None), self.unasked)

    def removable(self, *, everything: bool = False) -> list[Item]:
        """Return what may be removed, in the order in which to do it.

        Args:
            everything: Also what belongs to living owners, or to owners of whom nobody knows.
        """
        chosen = [item for item in self.items if everything or item.in_use is False]
        return sorted(
            chosen, key=lambda item: _LAST.index(item.kind) + 1 if item.kind in _LAST else 0
        )


def survey(providers: Iterable[str] | None = None) -> Survey:
    """Look for everything that this library has started.

    Args:
        providers: Names of the providers to ask; by default all.

    Raises:
        InvalidOptionError: There is no provider of such a name.
    """
    items: dict[tuple[str, str], Item] = {}
    unasked = {}
    for name in PROVIDERS if providers is None else providers:
        if name not in PROVIDERS:
            raise errors.InvalidOptionError(
                f"There is no provider {name!r}.",
                field="provider",
                hint=f"Expected one of {', '.join(PROVIDERS)}.",
            )
        try:
            for item in _provider(name).inventory():
                items[item.kind, item.name] = item
        except (errors.OpenEnvGymError, ImportError) as error:
            unasked[name] = str(error)
    return Survey(tuple(items.values()), unasked)


def clean(items: Iterable[Item]) -> dict[Item, errors.OpenEnvGymError]:
    """Remove items; one that is gone already is as good as removed.

    Returns:
        Those that could not be removed, and why.
    """
    failed = {}
    for item in items:
        try:
            _provider(item.provider).remove(item)
        except errors.OpenEnvGymError as error:
            failed[item] = error
    return failed


def log(item: Item, lines: int = 100) -> str:
    """Return the last lines that a server has written.

    Raises:
        ProviderError: It is gone, or its provider does not keep what it writes.
    """
    read = getattr(_provider(item.provider), "log", None)
    if read is None:
        raise errors.ProviderError(
            f"What {item.name} writes is kept where it runs ({item.provider}).",
            hint="Ask there, with kubectl logs, docker service logs or the like.",
        )
    text: str = read(item, lines)
    return text


def _provider(name: str) -> Any:
    return provider_class(name)()
