"""Classes of environment packages, imported by name when they are asked for."""

from __future__ import annotations

import importlib
from typing import Any

from openenv_gym import errors
from openenv_gym.openenv.auto.installed import EnvironmentInfo


__all__ = ["load_class"]


def load_class(info: EnvironmentInfo, kind: str) -> type[Any] | None:
    """Import a class of an environment package.

    Args:
        info: The environment.
        kind: ``"client"``, ``"action"`` or ``"observation"``.

    Returns:
        The class; None where the package is not installed, or has none and names none.

    Raises:
        ManifestError: The manifest names a class that there is not.
        ConfigurationError: The package cannot be imported.
    """
    if not info.installed:
        return None
    named: str | None = getattr(info, kind)
    module, _, name = (named or info.class_name(kind)).rpartition(":")
    homes = [info.package, f"{info.package}.client", f"{info.package}.models"]
    for home in [module] if module else homes:
        found = getattr(_import(home, info), name, None)
        if isinstance(found, type):
            return found
    if named is None:
        return None
    raise errors.ManifestError(
        f"The manifest of {info.package} names {kind}: {named}, and there is no such class.",
        field=kind,
        hint=f"Expected it in {module or ' or '.join(homes)}.",
        data={"package": info.package},
    )


def _import(name: str, info: EnvironmentInfo) -> Any:
    """Return a module; None where there is none of that name."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            return None
        raise _cannot_import(info, error) from error
    except Exception as error:  # its code raises what it likes
        raise _cannot_import(info, error) from error


def _cannot_import(info: EnvironmentInfo, error: Exception) -> errors.ConfigurationError:
    missing = isinstance(error, ModuleNotFoundError)
    return errors.ConfigurationError(
        f"The package {info.package} is installed and cannot be imported: "
        f"{type(error).__name__}: {error}",
        field="name",
        hint=f"Install {error.name}, "  # type: ignore[attr-defined]  # of ImportError
        "or pass skip_install=True, which needs none of its code."
        if missing
        else "skip_install=True needs none of its code.",
        data={"package": info.package},
    )
