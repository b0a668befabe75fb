"""Whether an action lies in its space: checks whose errors say what is wrong, and where.

Gymnasium's ``space.contains`` answers yes or no, warns about Python lists and raises for some
integers; an agent whose action is refused wants to know why. The rules are Gymnasium's own,
except that nested lists of numbers may stand for an array.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import iterate

from openenv_gym.errors import InvalidActionError
from openenv_gym.models.fields import array_from_lists


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

__all__ = [
    "check_action",
    "check_discrete",
    "check_hosted_action",
    "check_keys",
    "check_length",
    "read_array",
    "read_box",
    "refusal",
    "show_sample",
]

# Kinds of numbers that an environment can make sense of where its Box has a dtype of this kind.
_CONVERTIBLE = {"f": "fiub", "i": "iub", "u": "iub", "b": "b"}


def check_action(space: gymnasium.Space[Any], action: Any, name: str = "action") -> None:
    """Check that an action lies in its space.

    Args:
        space: The space.
        action: Anything.
        name: What the error calls the action.

    Raises:
        InvalidActionError: It does not lie there; `field` says which part of it.
    """
    _check(space, action, name, read_box)


def check_hosted_action(space: gymnasium.Space[Any], action: Any, name: str = "action") -> None:
    """Refuse an action that no environment with this action space could make sense of.

    Environments commonly clip what exceeds a `Box` and convert its dtype, so an action that works
    locally must not be refused for that: in a `Box`, kind and shape are checked, not bounds and
    precision. Every other space is checked in full.

    Args:
        space: The action space.
        action: Anything.
        name: What the error calls the action.

    Raises:
        InvalidActionError: The action is of the wrong type or shape, or not in the space; `field`
            says which part of it.
    """
    _check(space, action, name, _check_kind_and_shape)


def _check(
    space: gymnasium.Space[Any],
    sample: Any,
    name: str,
    check_box: Callable[[spaces.Box, Any, str], object],
) -> None:
    if isinstance(space, spaces.Discrete):
        check_discrete(space, sample, name)
    elif isinstance(space, spaces.Box):
        check_box(space, sample, name)
    elif isinstance(space, spaces.Text):
        _check_text(space, sample, name)
    elif isinstance(space, spaces.Dict):
        check_keys(space, sample, name)
        for key, inner in space.spaces.items():
            _check(inner, sample[key], f"{name}[{key!r}]", check_box)
    elif isinstance(space, spaces.Tuple):
        check_length(space, sample, name)
        for index, (inner, element) in enumerate(zip(space.spaces, sample, strict=True)):
            _check(inner, element, f"{name}[{index}]", check_box)
    elif isinstance(space, spaces.OneOf):
        if not isinstance(sample, tuple) or len(sample) != 2:
            raise refusal(name, f"is {show_sample(sample)}, expected a pair of number and sample")
        check_discrete(spaces.Discrete(len(space.spaces)), sample[0], f"{name}[0]")
        _check(space.spaces[sample[0]], sample[1], f"{name}[1]", check_box)
    elif isinstance(space, spaces.Sequence):
        for index, element in enumerate(_elements(space, sample, name)):
            _check(space.feature_space, element, f"{name}[{index}]", check_box)
    elif not _contains(space, sample):
        raise refusal(name, f"is {show_sample(sample)}, which is not in {_cut(repr(space))}")


# -- single spaces; `name` is what errors call the sample ---------------------------------------


def check_discrete(space: spaces.Discrete[Any], sample: Any, name: str) -> None:
    """Check that a sample is an integer of `space`.

    Raises:
        InvalidActionError: It is not.
    """
    first, last = int(space.start), int(space.start) + int(space.n) - 1
    if type(sample) is int or type(sample) is space.dtype.type:
        inside = first <= int(sample) <= last
    else:
        inside = _contains(space, sample)  # which is three times slower
    if not inside:
        raise refusal(name, f"is {show_sample(sample)}, expected an integer from {first} to {last}")


def read_box(space: spaces.Box, sample: Any, name: str) -> NDArray[Any]:
    """Return a sample of `space` as an array of its dtype and shape.

    Raises:
        InvalidActionError: It does not lie there.
    """
    return read_array(sample, space.shape, space.dtype, space.low, space.high, name)


def read_array(
    sample: Any,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    low: NDArray[Any],
    high: NDArray[Any],
    name: str,
) -> NDArray[Any]:
    """Return a sample as an array of that dtype and shape with all elements within the bounds.

    Args:
        sample: Anything.
        shape: Shape of the array.
        dtype: Dtype of the array.
        low: Smallest values; they broadcast to `shape`.
        high: Greatest values, likewise.
        name: What errors call the sample.

    Raises:
        InvalidActionError: There is no such array.
    """
    is_array = isinstance(sample, (np.ndarray, np.generic))  # np.float64 is a float, too
    if not is_array and isinstance(sample, (bool, int, float, list, tuple)):
        try:
            array = array_from_lists(sample, shape, dtype)
        except ValueError as error:
            raise refusal(name, f"is not in the space: {error}") from None
    elif is_array and sample.shape == shape and np.can_cast(sample.dtype, dtype):
        array = np.asarray(sample).astype(dtype, copy=False)
    else:
        raise refusal(name, f"is {show_sample(sample)}, expected dtype {dtype} and shape {shape}")
    # Negated, so that NaN counts as outside.
    outside = ~((array >= low) & (array <= high))
    if np.any(outside):
        index = tuple(int(i) for i in np.argwhere(outside)[0])
        where = f" at {list(index)}" if index else ""
        least, greatest = (np.broadcast_to(bound, shape)[index] for bound in (low, high))
        limits = f"from {least} to {greatest}"
        raise refusal(name, f"holds {array[index]}{where}, expected {limits}")
    return array


def _check_kind_and_shape(space: spaces.Box, sample: Any, name: str) -> None:
    try:
        array = np.asarray(sample)
    except (ValueError, TypeError):  # ragged lists
        array = np.asarray(None, dtype=object)
    if array.dtype.kind not in _CONVERTIBLE.get(space.dtype.kind, ""):
        raise refusal(
            name,
            f"is a {type(sample).__name__} of dtype {array.dtype}, expected numbers of shape "
            f"{space.shape} that fit {space.dtype}",
        )
    if array.shape != space.shape:
        raise refusal(name, f"has shape {array.shape}, expected {space.shape}")


def _check_text(space: spaces.Text, sample: Any, name: str) -> None:
    # `contains` walks over the characters one by one in Python; sets do it at once.
    if not isinstance(sample, str):
        raise refusal(name, f"is {show_sample(sample)}, expected a string")
    if not space.min_length <= len(sample) <= space.max_length:
        length = f"has {len(sample)} characters"
        raise refusal(name, f"{length}, expected {space.min_length} to {space.max_length}")
    charset = space.character_set
    if not charset.issuperset(sample):
        unknown = next(character for character in sample if character not in charset)
        raise refusal(name, f"holds the character {unknown!r}, which is not in the space's charset")


def check_keys(space: spaces.Dict[Any], sample: Any, name: str) -> None:
    """Check that a sample is a dict with the keys of `space`, whatever it holds under them.

    Raises:
        InvalidActionError: It is not.
    """
    if type(sample) is dict and sample.keys() == space.spaces.keys():
        return
    if not isinstance(sample, dict):
        raise refusal(name, f"is {show_sample(sample)}, expected a dict")
    for key in space.spaces:
        if key not in sample:
            raise refusal(name, f"lacks {key!r}")
    for key in sample:
        if key not in space.spaces:
            known = _cut(", ".join(repr(known) for known in space.spaces))
            raise refusal(name, f"has {_cut(repr(key))}, expected only {known}")


def check_length(space: spaces.Tuple[Any], sample: Any, name: str) -> None:
    """Check that a sample has as many elements as `space`, whatever they are.

    Raises:
        InvalidActionError: It has not.
    """
    if not isinstance(sample, (tuple, list, np.ndarray)):
        raise refusal(name, f"is {show_sample(sample)}, expected a tuple")
    if len(sample) != len(space.spaces):
        raise refusal(name, f"has {len(sample)} elements, expected {len(space.spaces)}")


def _elements(space: spaces.Sequence, sample: Any, name: str) -> Iterable[Any]:
    if space.stack:
        try:
            return list(iterate(space.stacked_feature_space, sample))
        except (LookupError, TypeError, ValueError):
            raise refusal(name, f"is {show_sample(sample)}, expected stacked samples") from None
    if not isinstance(sample, tuple):
        raise refusal(name, f"is {show_sample(sample)}, expected a tuple")
    return sample


def _contains(space: gymnasium.Space[Any], sample: Any) -> bool:
    try:
        return space.contains(sample)
    except (AttributeError, LookupError, OverflowError, TypeError, ValueError):
        return False  # it is so foreign to the space that looking at it fails


# -- errors -------------------------------------------------------------------------------------


def refusal(name: str, what: str) -> InvalidActionError:
    """Return the error that says what is wrong with the sample called `name`."""
    return InvalidActionError(
        f"{name} {what}.", field=name, hint="Valid actions are those of `env.action_space`."
    )


def show_sample(sample: Any) -> str:
    """Return a sample, or what it is, in as many words as an error has room for."""
    if isinstance(sample, np.ndarray):
        return f"an array of dtype {sample.dtype} and shape {sample.shape}"
    if isinstance(sample, (bool, int)):
        return _cut(repr(sample))
    value = sample.item() if isinstance(sample, np.generic) else sample
    return f"{_cut(repr(value))} ({type(sample).__name__})"


def _cut(text: str) -> str:
    return text if len(text) <= 120 else f"{text[:117]}..."
