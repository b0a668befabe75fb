"""``env.unwrapped.ale`` and the like: objects and methods that live on the server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from openenv_gym import errors
from openenv_gym.protocol.messages import Result


__all__ = ["Observed", "RemoteMethod", "RemoteObject", "read_attribute"]

_UNREAD_LIMIT = 64

Request = Callable[[str, list[Any]], Result]


class Observed:
    """Values that come along with every step because somebody reads them.

    The first reading asks the server; from then on the value is in the reply of each step, until
    nobody has read it for a while.

    Args:
        paths: What the server lets us observe.
        request: Sends an operation.
    """

    def __init__(self, paths: list[str], request: Request) -> None:
        self.paths = frozenset(paths)
        self.parents = frozenset(path.rpartition(".")[0] for path in paths)
        self._request = request
        self._unread: dict[str, int] = {}
        self._values: dict[str, Any] = {}

    def update(self, values: list[Any] | None) -> None:
        """Take the values of a reply."""
        self._values = {} if values is None else dict(zip(self._unread, values, strict=False))
        for path in self._unread:
            self._unread[path] += 1

    def forget(self) -> None:
        """Drop the values: the environment may have changed since."""
        self._values = {}

    def read(self, path: str, ask: Callable[[], Any]) -> Any:
        """Return the present value, asking the server only where it did not come along."""
        if path in self._values:
            self._unread[path] = 0
            value = self._values[path]
            return value.copy() if isinstance(value, np.ndarray) else value
        if path not in self._unread:
            kept = [known for known, unread in self._unread.items() if unread < _UNREAD_LIMIT]
            self._unread = dict.fromkeys([*kept, path], 0)
            self._request("observe", [list(self._unread)])
        return ask()


def read_attribute(path: str, request: Request, observed: Observed) -> Any:
    """Read an attribute: plain data by value, anything else as something that stands for it.

    Raises:
        AttributeError: The environment has no such attribute.
    """
    if path in observed.paths:
        return RemoteMethod(path, request, observed)
    if path in observed.parents:
        return RemoteObject(path, request, observed)
    try:
        value = request("get", [path]).value
    except errors.EnvironmentFailedError as error:
        if error.type_name == "AttributeError":
            raise AttributeError(error.message) from None
        raise
    if isinstance(value, dict) and "$ref" in value:
        kind = RemoteMethod if value["$ref"] == "method" else RemoteObject
        return kind(path, request, observed)
    return value


class RemoteMethod:
    """A method of an object on the server; calling it calls it there."""

    def __init__(self, path: str, request: Request, observed: Observed) -> None:
        self._path = path
        self._request = request
        self._observed = observed

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the method; an array given to an observed getter is filled, as the original does."""
        if self._path in self._observed.paths and not kwargs:
            if not args:
                return self._observed.read(self._path, self._ask)
            if len(args) == 1 and isinstance(args[0], np.ndarray):
                np.copyto(args[0], self._observed.read(self._path, self._ask))
                return None
        return self._request("call", [self._path, list(args), kwargs]).value

    def _ask(self) -> Any:
        return self._request("call", [self._path, [], {}]).value

    def __repr__(self) -> str:
        return f"<remote method {self._path}>"


class RemoteObject:
    """An object on the server that is not plain data."""

    def __init__(self, path: str, request: Request, observed: Observed) -> None:
        vars(self).update(_path=path, _request=request, _observed=observed, _known={})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        known = self._known.get(name)
        if known is None:
            known = read_attribute(f"{self._path}.{name}", self._request, self._observed)
            if isinstance(known, RemoteMethod):
                self._known[name] = known
        return known

    def __setattr__(self, name: str, value: Any) -> None:
        self._request("set", [f"{self._path}.{name}", value])

    def __repr__(self) -> str:
        return f"<remote object {self._path}>"
