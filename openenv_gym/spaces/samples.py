"""What a sample must be to lie in a space: checks whose errors say what is wrong, and where.

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
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = [
    "box_reader",
    "check_action",
    "check_keys",
    "discrete_reader",
    "find_problem",
    "sample_reader",
    "scalar_reader",
]

_HINT = "Valid actions are those of `env.action_space`."


def check_action(space: gymnasium.Space[Any], action: Any, name: str = "action") -> None:
    """Check that an action lies in its space.

    Args:
        space: The space.
        action: Anything.
        name: What the error calls the action.

    Raises:
        InvalidActionError: It does not lie there; `field` says which part of it.
    """
    problem = find_problem(space, action, name)
    if problem is not None:
        raise problem


def check_keys(space: spaces.Dict[Any], sample: Any, name: str) -> None:
    """Check that a sample is a dict with the keys of `space`, whatever it holds under them.

    Raises:
        InvalidActionError: It is not.
    """
    if type(sample) is dict and sample.keys() == space.spaces.keys():
        return
    problem = _keys_problem(space, sample, name)
    if problem is not None:
        raise problem


def find_problem(space: gymnasium.Space[Any], sample: Any, name: str) -> InvalidActionError | None:
    """Return what is wrong with a sample, None where it lies in the space."""
    if isinstance(space, spaces.Discrete):
        return _discrete_problem(space, sample, name)
    if isinstance(space, spaces.Box):
        _, problem = _read_box(space, sample, name)
        return problem
    if isinstance(space, spaces.Dict):
        return _dict_problem(space, sample, name)
    if isinstance(space, spaces.Tuple):
        return _tuple_problem(space, sample, name)
    if isinstance(space, spaces.OneOf):
        return _one_of_problem(space, sample, name)
    if isinstance(space, spaces.Sequence):
        return _sequence_problem(space, sample, name)
    if _contains(space, sample):
        return None
    return _problem(name, f"is {_show(sample)}, which is not in {_cut(repr(space))}")


def discrete_reader(space: spaces.Discrete[Any], name: str) -> Callable[[Any], int]:
    """Return a function that turns a sample of `space` into a Python integer.

    Args:
        space: The space.
        name: What errors call the sample.

    Returns:
        The function; it raises `InvalidActionError` for what does not lie in the space.
    """
    first, last, native = int(space.start), int(space.start) + int(space.n) - 1, space.dtype.type

    def read(sample: Any) -> int:
        kind = type(sample)
        if kind is native or kind is int:
            value = int(sample)
            if first <= value <= last:
                return value
        problem = _discrete_problem(space, sample, name)
        if problem is not None:
            raise problem
        return int(sample)

    return read


def box_reader(space: spaces.Box, name: str) -> Callable[[Any], NDArray[Any]]:
    """Return a function that turns a sample of `space` into an array of its dtype and shape.

    Args:
        space: The space.
        name: What errors call the sample.

    Returns:
        The function. It returns arrays of that dtype and shape uncopied, converts what fits
        without loss, and raises `InvalidActionError` for what does not lie in the space.
    """
    dtype, shape, low, high = space.dtype, space.shape, space.low, space.high
    # What no value of the dtype can violate is not checked; floats always can, by being NaN.
    free = False
    if dtype.kind != "f":
        limits = np.iinfo(np.dtype(dtype.str)) if dtype.kind in "iu" else None
        least, greatest = (limits.min, limits.max) if limits else (False, True)
        free = bool((low == least).all() and (high == greatest).all())

    def read(sample: Any) -> NDArray[Any]:
        exact = type(sample) is np.ndarray and sample.dtype == dtype and sample.shape == shape
        if exact and (free or ((sample >= low).all() and (sample <= high).all())):
            return sample  # type: ignore[no-any-return]
        array, problem = _read_box(space, sample, name)
        if problem is not None:
            raise problem
        return array

    return read


def scalar_reader(space: spaces.Box, name: str) -> Callable[[Any], Any]:
    """Return a function that turns a sample of a Box of shape () into a Python scalar.

    Args:
        space: The space.
        name: What errors call the sample.

    Returns:
        The function; it raises `InvalidActionError` for what does not lie in the space.
    """
    dtype, read_box = space.dtype, box_reader(space, name)
    low, high = space.low.item(), space.high.item()
    native, python = dtype.type, type(low)

    def read(sample: Any) -> Any:
        # Comparing Python scalars is ten times faster than comparing arrays.
        kind = type(sample)
        # A Box of integers and shape () samples NumPy scalars, one of floats 0-d arrays.
        if kind is native or (kind is np.ndarray and not sample.ndim and sample.dtype == dtype):
            value = sample.item()
        elif kind is python and dtype.itemsize == 8:  # narrower dtypes would round
            value = sample
        else:
            return read_box(sample).item()
        return value if low <= value <= high else read_box(sample).item()

    return read


def sample_reader(space: gymnasium.Space[Any], name: str) -> Callable[[Any], Any]:
    """Return a function that returns its argument where that lies in `space`.

    Args:
        space: The space.
        name: What errors call the sample.

    Returns:
        The function; it raises `InvalidActionError` for what does not lie in the space.
    """
    if isinstance(space, spaces.Box):
        return box_reader(space, name)
    if isinstance(space, spaces.Text):
        return _text_reader(space, name)

    def read(sample: Any) -> Any:
        check_action(space, sample, name)
        return sample

    return read


def _text_reader(space: spaces.Text, name: str) -> Callable[[Any], str]:
    shortest, longest, charset = space.min_length, space.max_length, space.character_set

    def read(sample: Any) -> str:
        # `contains` walks over the characters one by one in Python; sets do it at once.
        if not isinstance(sample, str):
            raise _problem(name, f"is {_show(sample)}, expected a string")
        if not shortest <= len(sample) <= longest:
            length = f"has {len(sample)} characters"
            raise _problem(name, f"{length}, expected {shortest} to {longest}")
        if not charset.issuperset(sample):
            unknown = next(character for character in sample if character not in charset)
            raise _problem(
                name,
                f"holds the character {unknown!r}, which is not in the space's charset",
                "A model allows more by naming its space: `Annotated[str, Text(...)]`.",
            )
        return sample

    return read


def _discrete_problem(
    space: spaces.Discrete[Any], sample: Any, name: str
) -> InvalidActionError | None:
    first, last = int(space.start), int(space.start) + int(space.n) - 1
    if type(sample) is int or type(sample) is space.dtype.type:
        inside = first <= int(sample) <= last
    else:
        inside = _contains(space, sample)  # which is three times slower
    if inside:
        return None
    return _problem(name, f"is {_show(sample)}, expected an integer from {first} to {last}")


def _keys_problem(space: spaces.Dict[Any], sample: Any, name: str) -> InvalidActionError | None:
    if not isinstance(sample, dict):
        return _problem(name, f"is {_show(sample)}, expected a dict")
    for key in space.spaces:
        if key not in sample:
            return _problem(name, f"lacks {key!r}")
    for key in sample:
        if key not in space.spaces:
            known = _cut(", ".join(repr(known) for known in space.spaces))
            return _problem(name, f"has {_cut(repr(key))}, expected only {known}")
    return None


def _dict_problem(space: spaces.Dict[Any], sample: Any, name: str) -> InvalidActionError | None:
    problem = _keys_problem(space, sample, name)
    if problem is not None:
        return problem
    for key, inner in space.spaces.items():
        problem = find_problem(inner, sample[key], f"{name}[{key!r}]")
        if problem is not None:
            return problem
    return None


def _tuple_problem(space: spaces.Tuple[Any], sample: Any, name: str) -> InvalidActionError | None:
    if not isinstance(sample, (tuple, list, np.ndarray)):
        return _problem(name, f"is {_show(sample)}, expected a tuple")
    if len(sample) != len(space.spaces):
        return _problem(name, f"has {len(sample)} elements, expected {len(space.spaces)}")
    for index, (inner, element) in enumerate(zip(space.spaces, sample, strict=True)):
        problem = find_problem(inner, element, f"{name}[{index}]")
        if problem is not None:
            return problem
    return None


def _one_of_problem(space: spaces.OneOf[Any], sample: Any, name: str) -> InvalidActionError | None:
    if not isinstance(sample, tuple) or len(sample) != 2:
        return _problem(name, f"is {_show(sample)}, expected a pair of number and sample")
    problem = _discrete_problem(spaces.Discrete(len(space.spaces)), sample[0], f"{name}[0]")
    return problem or find_problem(space.spaces[sample[0]], sample[1], f"{name}[1]")


def _sequence_problem(space: spaces.Sequence, sample: Any, name: str) -> InvalidActionError | None:
    if space.stack:
        try:
            elements = list(iterate(space.stacked_feature_space, sample))
        except (LookupError, TypeError, ValueError):
            return _problem(name, f"is {_show(sample)}, expected stacked samples")
    elif isinstance(sample, tuple):
        elements = list(sample)
    else:
        return _problem(name, f"is {_show(sample)}, expected a tuple")
    for index, element in enumerate(elements):
        problem = find_problem(space.feature_space, element, f"{name}[{index}]")
        if problem is not None:
            return problem
    return None


def _read_box(
    space: spaces.Box, sample: Any, name: str
) -> tuple[NDArray[Any], InvalidActionError | None]:
    dtype, shape = space.dtype, space.shape
    expected = f"expected dtype {dtype} and shape {shape}"
    if isinstance(sample, (np.ndarray, np.generic)):
        array = np.asarray(sample)
        if array.shape != shape or not np.can_cast(array.dtype, dtype):
            return space.low, _problem(name, f"is {_show(sample)}, {expected}")
        array = array.astype(dtype, copy=False)
    elif isinstance(sample, (bool, int, float, list, tuple)):
        try:
            array = array_from_lists(sample, shape, dtype)
        except ValueError as error:
            return space.low, _problem(name, f"is not in the space: {error}")
    else:
        return space.low, _problem(name, f"is {_show(sample)}, {expected}")
    # Negated, so that NaN counts as outside.
    outside = ~((array >= space.low) & (array <= space.high))
    if not np.any(outside):
        return array, None
    index = tuple(int(i) for i in np.argwhere(outside)[0])
    where = f" at {list(index)}" if index else ""
    limits = f"from {space.low[index]} to {space.high[index]}"
    return array, _problem(name, f"holds {array[index]}{where}, expected {limits}")


def _contains(space: gymnasium.Space[Any], sample: Any) -> bool:
    try:
        return space.contains(sample)
    except (AttributeError, LookupError, OverflowError, TypeError, ValueError):
        return False  # it is so foreign to the space that looking at it fails


def _problem(name: str, what: str, hint: str = _HINT) -> InvalidActionError:
    return InvalidActionError(f"{name} {what}.", field=name, hint=hint)


def _show(sample: Any) -> str:
    if isinstance(sample, np.ndarray):
        return f"an array of dtype {sample.dtype} and shape {sample.shape}"
    if isinstance(sample, (bool, int)):
        return _cut(repr(sample))
    return f"{_cut(repr(sample))} ({type(sample).__name__})"


def _cut(text: str) -> str:
    return text if len(text) <= 120 else f"{text[:117]}..."
