"""PettingZoo's environments by name, and their two forms.

PettingZoo is imported where an environment is made: a server needs it only then.
"""

from __future__ import annotations

import functools
import importlib
import re
from typing import Any

from openenv_gym.errors import InvalidOptionError
from openenv_gym.server.multi_agent.options import AEC, PARALLEL, SEAT


__all__ = ["as_api", "describe_class", "is_multi_agent", "make_pettingzoo"]

# What a module of PettingZoo calls its environments, in the order in which they are tried.
_NAMES = {
    AEC: ("env", "parallel_env"),
    PARALLEL: ("parallel_env", "env"),
    SEAT: ("parallel_env", "env"),
}


def make_pettingzoo(api: str, env_id: str, **kwargs: Any) -> Any:
    """Make an environment of PettingZoo, or of any module that follows its conventions.

    Args:
        api: The form that is wanted: of a module that has both, the fitting one is taken.
        env_id: An id of PettingZoo's registry (``classic/rps_v2``), a module with ``env`` or
            ``parallel_env`` (``pettingzoo.classic.rps_v2``), or ``module:attribute``, which makes
            an environment of either form.
        **kwargs: What it is made with.

    Raises:
        InvalidOptionError: There is no such environment here, or it does not take an option.
    """
    make = _find(api, env_id)
    try:
        return make(**kwargs)
    except Exception as error:
        # PettingZoo's registry has an exception of its own for what cannot be imported.
        if isinstance(error, ImportError) or type(error).__name__ == "FailedToImport":
            raise InvalidOptionError(
                f"The server lacks what {env_id} needs: {error}", field="env_id"
            ) from error
        if isinstance(error, TypeError) and "keyword argument" in str(error):
            raise InvalidOptionError(f"{env_id} does not take these options: {error}") from error
        raise


def _find(api: str, env_id: Any) -> Any:
    if not isinstance(env_id, str) or not env_id:
        raise InvalidOptionError(
            f"Expected the name of an environment, got {env_id!r:.80}.", field="env_id"
        )
    registered = _find_registered(api, env_id)
    if registered is not None:
        return registered
    module, _, attribute = env_id.partition(":")
    try:
        imported = importlib.import_module(module)
    # PettingZoo raises its own for environments that moved, and a module whatever it likes.
    except Exception as error:
        raise InvalidOptionError(
            f"The server cannot import {module!r:.200}: {error}",
            field="env_id",
            hint="Install its package on the server: pip install 'pettingzoo[classic]', say.",
        ) from error
    for name in (attribute,) if attribute else _NAMES[api]:
        if callable(found := getattr(imported, name, None)):
            return found
    expected = attribute or "env or parallel_env"
    raise InvalidOptionError(f"{module} has no {expected} to call.", field="env_id")


def _find_registered(api: str, env_id: str) -> Any:
    """Return what makes an environment of PettingZoo's registry; None where it is not there.

    PettingZoo warns whoever imports a module of its own that is in its registry.
    """
    try:
        from pettingzoo import aec_registry, make, parallel_registry
    except ImportError as error:
        raise _missing(error) from error
    registries = {AEC: ("aec", aec_registry), PARALLEL: ("parallel", parallel_registry)}
    name = env_id.removeprefix("pettingzoo.").replace(".", "/")
    for form in (AEC, PARALLEL) if api == AEC else (PARALLEL, AEC):
        kind, registry = registries[form]
        for spelling in (name, re.sub(r"_v(\d+)$", r"-v\1", name)):
            if spelling in registry:
                return functools.partial(make, kind, spelling)
    return None


def is_multi_agent(env: Any) -> bool:
    """Tell whether something is an environment of PettingZoo, without importing that."""
    return any(
        base.__module__.startswith("pettingzoo.") and base.__name__ in ("AECEnv", "ParallelEnv")
        for base in type(env).__mro__
    )


def as_api(env: Any, api: str) -> Any:
    """Return an environment in the form that is wanted, by PettingZoo's own wrappers.

    One whose agents act in turn becomes parallel by `aec_to_parallel` where it says that it can
    be, and else by `turn_based_aec_to_parallel`, where all but one action of a step are ignored.

    Args:
        env: An environment of either form.
        api: ``"aec"`` or ``"parallel"``; ``"seat"`` takes it as it is.

    Raises:
        InvalidOptionError: It is neither form.
    """
    try:
        from pettingzoo import AECEnv, ParallelEnv
        from pettingzoo.utils import conversions
    except ImportError as error:
        raise _missing(error) from error
    if isinstance(env, AECEnv):
        if api != PARALLEL:
            return env
        if env.metadata.get("is_parallelizable", False):
            return conversions.aec_to_parallel(env)
        return conversions.turn_based_aec_to_parallel(env)
    if isinstance(env, ParallelEnv):
        return conversions.parallel_to_aec(env) if api == AEC else env
    raise InvalidOptionError(
        f"{type(env).__name__} has a single agent: it is neither an AECEnv nor a ParallelEnv.",
        field="multi_agent",
        hint="Use gymnasium.make.",
    )


def _missing(error: ImportError) -> InvalidOptionError:
    return InvalidOptionError(
        f"PettingZoo 1.27 or newer is not installed on the server: {error}",
        field="multi_agent",
        hint="pip install 'openenv-gym[pettingzoo]' there.",
    )


def describe_class(env: Any) -> str:
    """Return the name of an environment, as PettingZoo shows it."""
    return str((env.metadata or {}).get("name") or type(env.unwrapped).__name__)
