"""Values that come along with every step because somebody reads them."""

from __future__ import annotations

from typing import Any


__all__ = ["Observed"]

_UNREAD_LIMIT = 64


class Observed:
    """What the server was asked to send along, and what it last sent.

    The first reading asks the server; from then on the value is in the reply of each step, until
    nobody has read it for a while.

    Attributes:
        paths: What the server lets us observe.
        parents: The objects that these paths go through.
        kinds: For paths that were read before, what is there (docs/protocol.md, section 4.3).
        values: What came with the last reply.
    """

    def __init__(self, paths: list[str]) -> None:
        self.paths = frozenset(paths)
        self.parents = frozenset(path.rpartition(".")[0] for path in paths) - {""}
        self.kinds: dict[str, int] = {}
        self.values: dict[str, Any] = {}
        self._unread: dict[str, int] = {}

    def update(self, values: list[Any] | None) -> None:
        """Take the values of a reply."""
        self.values = {} if values is None else dict(zip(self._unread, values, strict=False))
        for path in self._unread:
            self._unread[path] += 1

    def use(self, path: str) -> Any:
        """Return a value that is there."""
        self._unread[path] = 0
        return self.values[path]

    def with_path(self, path: str) -> list[str] | None:
        """Return what to observe so that this path is among it; None where it is already."""
        if path in self._unread:
            self._unread[path] = 0
            return None
        return [*(known for known, n in self._unread.items() if n < _UNREAD_LIMIT), path]

    def agree(self, paths: list[str]) -> None:
        """Note that the server observes these paths from now on."""
        self._unread = dict.fromkeys(paths, 0)
        self.values = {}

    def forget(self) -> None:
        """Know nothing: a request failed, and what the server did or observes is not certain."""
        self._unread = {}
        self.values = {}
