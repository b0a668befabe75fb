"""``env.unwrapped.ale`` and the like: objects and methods that live on the server."""

from __future__ import annotations

from typing import Any

import numpy as np

from openenv_gym import errors
from openenv_gym.env.session import RemoteSession


__all__ = ["RemoteMethod", "RemoteObject", "read_attribute"]

_VALUE, _METHOD = 0, 1  # kinds of docs/protocol.md, section 4.3; anything else is an object


def read_attribute(path: str, session: RemoteSession) -> Any:
    """Read an attribute: plain data by value, anything else as something that stands for it.

    Raises:
        AttributeError: The environment has no such attribute, or is closed.
    """
    observed = session.observed
    kind = observed.kinds.get(path)
    if kind == _METHOD:
        return RemoteMethod(path, session)
    if kind == _VALUE:
        return session.observe(path, lambda: _get(path, session)[1])
    if path in observed.parents:
        return RemoteObject(path, session)
    kind, value = _get(path, session)
    if path in observed.paths:
        observed.kinds[path] = kind
    if kind == _VALUE:
        return value
    return RemoteMethod(path, session) if kind == _METHOD else RemoteObject(path, session)


def _get(path: str, session: RemoteSession) -> Any:
    try:
        return session.request("get", [path])
    except errors.EnvironmentFailedError as error:
        if error.type_name == "AttributeError":
            raise AttributeError(error.message) from None
        raise
    except errors.SessionClosedError as error:
        # What `hasattr` expects; a local environment that is closed has lost attributes, too.
        raise AttributeError(f"Cannot read {path!r}: the environment is closed.") from error


class RemoteMethod:
    """A method of an object on the server; calling it calls it there."""

    def __init__(self, path: str, session: RemoteSession) -> None:
        self._path = path
        self._session = session

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the method; an array given to an observed getter is filled, as the original does."""
        if self._path in self._session.observed.paths and not kwargs:
            if not args:
                return self._session.observe(self._path, self._ask)
            if len(args) == 1 and isinstance(args[0], np.ndarray):
                np.copyto(args[0], self._session.observe(self._path, self._ask))
                return None
        return self._session.request("call", [self._path, list(args), kwargs])

    def _ask(self) -> Any:
        return self._session.request("call", [self._path, [], {}])

    def __repr__(self) -> str:
        return f"<remote method {self._path}>"


class RemoteObject:
    """An object on the server that is not plain data."""

    def __init__(self, path: str, session: RemoteSession) -> None:
        vars(self).update(_openenv_path=path, _openenv_session=session, _openenv_methods={})

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("__", "_openenv_")):
            raise AttributeError(name)
        found = self._openenv_methods.get(name)
        if found is None:
            found = read_attribute(f"{self._openenv_path}.{name}", self._openenv_session)
            if isinstance(found, RemoteMethod):
                self._openenv_methods[name] = found
        return found

    def __setattr__(self, name: str, value: Any) -> None:
        self._openenv_session.request("set", [f"{self._openenv_path}.{name}", value])
        self._openenv_methods.pop(name, None)

    def __repr__(self) -> str:
        return f"<remote object {self._openenv_path}>"
