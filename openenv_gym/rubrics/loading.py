"""`load_rubric`: what the option ``rubric`` of an environment stands for."""

from __future__ import annotations

import copy
import importlib
import inspect
import typing
from typing import Any

from openenv_gym.errors import InvalidOptionError
from openenv_gym.rubrics.base import Rubric, is_rubric


__all__ = ["load_rubric"]

_EXPECTED = "expected a rubric, 'module:attribute', or None"


def load_rubric(spec: Any, default: Rubric | None = None) -> Rubric | None:
    """Return the rubric of one environment.

    Args:
        spec: None for the default; a rubric, of which the environment gets a copy, as it has state
            and may be given to many environments; or text, ``"module:attribute"``: a rubric (a
            copy again), a class of rubrics, which is called without arguments, or a function that
            is, and whose return annotation is a class of rubrics.
        default: The rubric where there is no other. It is taken as it is.

    Raises:
        InvalidOptionError: It is none of these, or cannot be copied, imported or called.
    """
    if spec is None:
        return default
    if isinstance(spec, str):
        return _imported(spec)
    if is_rubric(spec):
        return _copied(spec, f"A {type(spec).__name__}")
    raise _refusal(f"rubric={spec!r:.80}: {_EXPECTED}.")


def _imported(text: str) -> Rubric:
    module_name, _, attribute = text.partition(":")
    if not attribute or not module_name or module_name.startswith("."):
        raise _refusal(f"rubric={text!r:.120}: {_EXPECTED}.")
    try:
        found: Any = importlib.import_module(module_name)
        for name in attribute.split("."):
            found = getattr(found, name)
    except Exception as error:
        raise _refusal(
            f"rubric={text!r:.120} cannot be imported where the environment runs: "
            f"{type(error).__name__}: {error!s:.400}"
        ) from error
    if is_rubric(found):
        return _copied(found, text)
    if not _makes_rubrics(found):
        raise _refusal(
            f"rubric={text!r:.120} is {found!r:.80}, expected a rubric, a class of them, or a "
            "function whose return annotation is one."
        )
    try:
        made = found()
    except Exception as error:
        raise _refusal(
            f"rubric={text!r:.120} cannot be made: {type(error).__name__}: {error!s:.400}"
        ) from error
    if not is_rubric(made):
        raise _refusal(f"rubric={text!r:.120} returned {made!r:.80}, expected a rubric.")
    return made  # type: ignore[no-any-return]


def _makes_rubrics(found: Any) -> bool:
    """Tell whether something that a client named may be called.

    It must say so itself: `os.abort` and much else take no arguments, either.
    """
    if inspect.isclass(found):
        return _is_class_of_rubrics(found)
    if not inspect.isfunction(found):
        return False
    try:
        return _is_class_of_rubrics(typing.get_type_hints(found).get("return"))
    except Exception:  # an annotation that names what there is not
        return False


def _is_class_of_rubrics(found: Any) -> bool:
    return inspect.isclass(found) and (
        issubclass(found, Rubric)
        or all(hasattr(found, name) for name in ("forward", "named_rubrics", "reset"))
    )


def _copied(rubric: Any, name: str) -> Rubric:
    try:
        return copy.deepcopy(rubric)  # type: ignore[no-any-return]
    except Exception as error:
        raise _refusal(
            f"{name} cannot be copied, and each environment has a rubric of its own: "
            f"{type(error).__name__}: {error!s:.400}",
            hint="Give 'module:attribute' of its class or of a function that makes it, or define "
            "`__deepcopy__`.",
        ) from error


def _refusal(message: str, hint: str | None = None) -> InvalidOptionError:
    return InvalidOptionError(message, field="rubric", hint=hint)
