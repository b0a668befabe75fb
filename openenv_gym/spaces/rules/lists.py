"""Rules for lists and tuples: many of one kind, or some of several.

Numbers, truth values, labels and arrays become one array, so that a trainer gets what it can
compute with; what is no number stays a tuple of samples.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, get_args, get_origin

import numpy as np
from gymnasium import spaces

from openenv_gym.errors import InvalidActionError
from openenv_gym.spaces.actions import check_length, refusal, show_sample
from openenv_gym.spaces.compat import make_box
from openenv_gym.spaces.constraints import Limits
from openenv_gym.spaces.describe import Notes
from openenv_gym.spaces.readers import as_box, box_reader, stack_reader
from openenv_gym.spaces.rules.rule import HINT, Field, Many, Mapped, Mapper


if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ListField", "TupleField", "items_reader", "map_items"]


class ListField:
    """``list[T]`` and ``tuple[T, ...]``.

    ======================  =====================================  ==============================
    T                       as many as can be                      min_length == max_length == n
    ======================  =====================================  ==============================
    numbers, labels, arrays ``Sequence(space of T, stack=True)``   one array space of n of them
    anything else           ``Sequence(space of T)``               ``Tuple`` of n spaces
    ======================  =====================================  ==============================
    """

    def apply(self, field: Field, mapper: Mapper) -> Mapped | None:
        """Map the field."""
        args = get_args(field.annotation)
        make: Callable[[list[Any]], Any]
        if get_origin(field.annotation) is list:
            make = list
        elif get_origin(field.annotation) is tuple and len(args) == 2 and args[1] is Ellipsis:
            make = tuple
        else:
            return None
        limits = Limits.of(field.metadata)
        if limits.max_length == 0:
            raise field.fail("it is always empty", "Leave it out, or set another `max_length`.")
        if limits.max_length is not None and limits.min_length > limits.max_length:
            lengths = f"min_length {limits.min_length} is above max_length {limits.max_length}"
            raise field.fail(lengths, "Exchange them.")
        count = limits.max_length if limits.max_length == limits.min_length else None
        item = mapper.map_field(field.inside("[*]", args[0]))
        if item.many is not None:
            return (
                _map_fixed(item, item.many, count, make, field)
                if count
                else _map_stack(item, item.many, limits, make, field)
            )
        if count:
            return map_items(field, [args[0]] * count, mapper, make)
        space = spaces.Sequence(item.space)
        read = items_reader(item, field.name)
        convert = item.to_sample
        notes = Notes(
            min_length=limits.min_length, max_length=limits.max_length, parts={0: item.notes}
        )
        return Mapped(
            space,
            lambda value: tuple(map(convert, value)),
            _made(make, read),
            notes,
        )


class TupleField:
    """``tuple[A, B]``: Tuple."""

    def apply(self, field: Field, mapper: Mapper) -> Mapped | None:
        """Map the field."""
        if get_origin(field.annotation) is not tuple:
            return None
        args = get_args(field.annotation)
        if not args:
            raise field.fail("it is always empty", HINT)
        return map_items(field, list(args), mapper, tuple)


def map_items(
    field: Field, annotations: list[Any], mapper: Mapper, make: Callable[[list[Any]], Any]
) -> Mapped:
    """Map a fixed number of items to a Tuple.

    Args:
        field: What holds them.
        annotations: Their types.
        mapper: Maps each of them.
        make: Makes a value of a list of items.

    Returns:
        The mapping of them all.
    """
    items = [mapper.map_field(field.inside(f"[{i}]", kind)) for i, kind in enumerate(annotations)]
    space = spaces.Tuple([item.space for item in items])
    writers = [item.to_sample for item in items]
    readers = [item.to_value for item in items]
    name = field.name

    def to_sample(value: Any) -> tuple[Any, ...]:
        return tuple([convert(item) for convert, item in zip(writers, value, strict=True)])

    def to_value(sample: Any) -> Any:
        check_length(space, sample, name)
        return make([read(item) for read, item in zip(readers, sample, strict=True)])

    notes = Notes(parts=dict(enumerate(item.notes for item in items)))
    return Mapped(space, to_sample, to_value, notes)


def items_reader(item: Mapped, name: str) -> Callable[[Any], list[Any]]:
    """Return a function that turns a tuple of samples into a list of values.

    Args:
        item: How one of them is mapped; errors call it ``name[*]``.
        name: What errors call the tuple; they put the index in the place of the star.

    Returns:
        The function; it raises `InvalidActionError` for what does not lie in the space.
    """
    read, star = item.to_value, f"{name}[*]"

    def to_values(sample: Any) -> list[Any]:
        if not isinstance(sample, tuple):
            raise refusal(name, f"is {show_sample(sample)}, expected a tuple")
        values: list[Any] = []
        try:
            for element in sample:
                values.append(read(element))
        except InvalidActionError as error:
            at = f"{name}[{len(values)}]"
            raise InvalidActionError(
                error.message.replace(star, at, 1),
                field=(error.field or star).replace(star, at, 1),
                hint=error.hint,
            ) from error
        return values

    return to_values


def _made(
    make: Callable[[list[Any]], Any], read: Callable[[Any], list[Any]]
) -> Callable[[Any], Any]:
    return read if make is list else lambda sample: make(read(sample))


# -- arrays -------------------------------------------------------------------------------------


def _map_stack(
    item: Mapped, many: Many, limits: Limits, make: Callable[[list[Any]], Any], field: Field
) -> Mapped:
    inner: Any = item.space
    read, to_values = stack_reader(as_box(inner), field.name), many.to_values
    return Mapped(
        spaces.Sequence(inner, stack=True),
        _array_maker(item, many, np.dtype(inner.dtype)),
        _made(make, lambda sample: to_values(read(sample))),
        Notes(min_length=limits.min_length, max_length=limits.max_length, parts={0: item.notes}),
    )


def _map_fixed(
    item: Mapped, many: Many, count: int, make: Callable[[list[Any]], Any], field: Field
) -> Mapped:
    space = _repeat(item.space, count, many.binary)
    read = box_reader(as_box(space), field.name)
    to_values, to_numbers = many.to_values, many.to_numbers

    def to_rows(array: NDArray[Any]) -> list[Any]:
        return [make(to_values(row)) for row in array]

    return Mapped(
        space,
        _array_maker(item, many, np.dtype(space.dtype)),
        _made(make, lambda sample: to_values(read(sample))),
        Notes(labels=item.notes.labels),
        Many(
            to_rows,
            None if to_numbers is None else lambda value: [to_numbers(part) for part in value],
            many.binary,
        ),
    )


def _array_maker(item: Mapped, many: Many, dtype: np.dtype[Any]) -> Callable[[Any], NDArray[Any]]:
    shape, to_numbers = item.space.shape or (), many.to_numbers

    def make(values: Any) -> NDArray[Any]:
        if to_numbers is not None:
            values = [to_numbers(value) for value in values]
        return np.array(values, dtype).reshape(len(values), *shape)

    return make


@functools.singledispatch
def _repeat(space: Any, count: int, binary: bool) -> Any:
    """Return the space of arrays of `count` samples of a space of numbers."""
    raise TypeError(f"{space} is no space of numbers.")


@_repeat.register
def _(space: spaces.Box, count: int, binary: bool) -> spaces.Box:
    shape = (count, *space.shape)
    return make_box(
        np.broadcast_to(space.low, shape),
        np.broadcast_to(space.high, shape),
        shape,
        space.dtype,
        bounded_below=np.broadcast_to(space.bounded_below, shape),
        bounded_above=np.broadcast_to(space.bounded_above, shape),
    )


@_repeat.register
def _(space: spaces.Discrete, count: int, binary: bool) -> Any:
    if binary:
        return spaces.MultiBinary(count)
    return spaces.MultiDiscrete(
        np.full(count, space.n, space.dtype),
        dtype=space.dtype,
        start=np.full(count, space.start, space.dtype),
    )


@_repeat.register
def _(space: spaces.MultiDiscrete, count: int, binary: bool) -> Any:
    shape = (count, *space.shape)
    return spaces.MultiDiscrete(
        np.array(np.broadcast_to(space.nvec, shape)),
        dtype=space.dtype,
        start=np.array(np.broadcast_to(space.start, shape)),
    )


@_repeat.register
def _(space: spaces.MultiBinary, count: int, binary: bool) -> Any:
    return spaces.MultiBinary([count, *space.shape])
