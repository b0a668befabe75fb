"""Rules for sets and dicts."""

from __future__ import annotations

import enum
from typing import Any, get_args, get_origin

import numpy as np
from gymnasium import spaces

from openenv_gym.spaces.actions import check_keys
from openenv_gym.spaces.compat import make_dict
from openenv_gym.spaces.constraints import Limits
from openenv_gym.spaces.describe import Notes
from openenv_gym.spaces.readers import as_box, box_reader
from openenv_gym.spaces.rules.labels import labels_of
from openenv_gym.spaces.rules.lists import items_reader, map_items
from openenv_gym.spaces.rules.rule import Field, Mapped, Mapper


__all__ = ["DictField", "SetField"]

_MAX_SET = 4096


class SetField:
    """``set[T]`` and ``frozenset[T]`` of labels or bounded integers: MultiBinary."""

    def apply(self, field: Field, mapper: Mapper) -> Mapped | None:
        """Map the field; an element is 1 where its label is in the set."""
        make = get_origin(field.annotation)
        if make is not set and make is not frozenset:
            return None
        item = mapper.map_field(field.inside("[*]", get_args(field.annotation)[0]))
        inner = item.space
        if not isinstance(inner, spaces.Discrete) or item.many is None or inner.n > _MAX_SET:
            raise field.fail(
                f"a set of at most {_MAX_SET} labels or bounded integers has a space, this has not",
                "Use a list, or give the integers bounds.",
            )
        first, count = int(inner.start), int(inner.n)
        values = [item.to_value(number) for number in range(first, first + count)]
        space = spaces.MultiBinary(count)
        read, number_of = box_reader(as_box(space), field.name), item.to_sample

        def to_sample(value: Any) -> Any:
            sample = np.zeros(count, np.int8)
            for element in value:
                sample[number_of(element) - first] = 1
            return sample

        def to_value(sample: Any) -> Any:
            return make(values[index] for index in np.flatnonzero(read(sample)))

        return Mapped(space, to_sample, to_value, Notes(labels=tuple(values)))


class DictField:
    """``dict[K, V]``: Dict where all keys are there, otherwise a Sequence of pairs."""

    def apply(self, field: Field, mapper: Mapper) -> Mapped | None:
        """Map the field."""
        if get_origin(field.annotation) is not dict:
            return None
        key_type, value_type = get_args(field.annotation)
        limits = Limits.of(field.metadata)
        key_field = field.inside("[key]", key_type)
        names = _names(labels_of(key_field))
        if names and limits.min_length >= len(names):
            return _map_names(field, names, value_type, mapper)
        key = mapper.map_field(key_field)
        if not isinstance(key.space, (spaces.Discrete, spaces.Text)):
            raise field.fail(
                "keys of a dict must be strings, labels or bounded integers",
                "Use a list of models, or `dict[str, T]`.",
            )
        pair = map_items(field.inside("[*]", None), [key_type, value_type], mapper, tuple)
        read, convert = items_reader(pair, field.name), pair.to_sample
        return Mapped(
            spaces.Sequence(pair.space),
            lambda value: tuple([convert(item) for item in value.items()]),
            lambda sample: dict(read(sample)),
            Notes(
                min_length=limits.min_length, max_length=limits.max_length, parts={0: pair.notes}
            ),
        )


def _names(labels: tuple[Any, ...] | None) -> dict[Any, str | int]:
    """Return the key of a Dict space for each label; none where some label has no such key."""
    names: dict[Any, str | int] = {}
    for label in labels or ():
        name = label.name if isinstance(label, enum.Enum) else label
        if type(name) not in (str, int):
            return {}
        names[label] = name
    return names if len(set(names.values())) == len(labels or ()) else {}


def _map_names(
    field: Field, names: dict[Any, str | int], value_type: Any, mapper: Mapper
) -> Mapped:
    items = [
        (label, name, mapper.map_field(field.inside(f"[{name!r}]", value_type)))
        for label, name in names.items()
    ]
    space = make_dict([(name, item.space) for _, name, item in items], sort_keys=False)
    writers = [(name, label, item.to_sample) for label, name, item in items]
    readers = [(name, label, item.to_value) for label, name, item in items]

    def to_sample(value: Any) -> dict[Any, Any]:
        return {name: convert(value[label]) for name, label, convert in writers}

    def to_value(sample: Any) -> dict[Any, Any]:
        check_keys(space, sample, field.name)
        return {label: convert(sample[name]) for name, label, convert in readers}

    return Mapped(
        space, to_sample, to_value, Notes(parts={name: item.notes for _, name, item in items})
    )
