"""Hypothesis strategies for types of fields, nested in every way, and for values of them."""

# No `from __future__ import annotations`: Pydantic needs the annotations themselves.

import string
from typing import Annotated, Any, Literal, NamedTuple, Optional, Union

import numpy as np
from gymnasium import spaces as gs
from hypothesis import strategies as st
from pydantic import BaseModel, Field, RootModel, create_model

from openenv_gym.models import Action, Array
from openenv_gym.spaces import Sample

from .models import Colour, Level


class Typed(NamedTuple):
    """A type and what its values are; `hashable` ones can be in a set or be keys."""

    annotation: Any
    values: st.SearchStrategy[Any]
    hashable: bool = False


class Circle(BaseModel):
    kind: Literal["circle"] = "circle"
    size: float


class Square(BaseModel):
    kind: Literal["square", "rectangle"] = "square"
    size: float


class Steps(RootModel[list[Annotated[int, Field(ge=0, le=9)]]]):
    pass


FLOATS = st.floats(allow_nan=False, allow_infinity=False)
INTEGERS = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(string.printable, max_size=5)
VECTORS = st.lists(st.floats(-1, 1, width=32), min_size=2, max_size=2).map(
    lambda numbers: np.array(numbers, np.float32)
)
BITS = st.lists(st.integers(0, 1), min_size=3, max_size=3).map(lambda b: np.array(b, np.int8))
Shape = Annotated[Union[Circle, Square], Field(discriminator="kind")]  # noqa: UP007

SCALARS = [
    Typed(bool, st.booleans(), True),
    Typed(Annotated[int, Field(ge=-2, le=4)], st.integers(-2, 4), True),
    Typed(int, INTEGERS),
    Typed(Annotated[int, Field(ge=0)], st.integers(0, 2**40)),
    Typed(float, FLOATS),
    Typed(Annotated[float, Field(gt=0, le=1)], st.floats(0, 1, exclude_min=True)),
    Typed(Literal["a", "b", 3, True], st.sampled_from(["a", "b", 3, True]), True),
    Typed(Colour, st.sampled_from(Colour), True),
    Typed(Level, st.sampled_from(Level), True),
    Typed(Literal["x", None] | Colour, st.sampled_from(["x", None, *Colour]), True),
    Typed(None, st.none(), True),
    Typed(Annotated[int, gs.Discrete(5, start=2)], st.integers(2, 6), True),
    Typed(Annotated[float, gs.Box(0, 1, (), np.float32)], st.floats(0, 1, width=32)),
]
OTHERS = [
    Typed(str, TEXTS),
    Typed(Annotated[str, Field(pattern="^[a-c]{1,3}$")], st.text("abc", min_size=1, max_size=3)),
    Typed(Annotated[np.ndarray, Array((2,), "float32", -1, 1)], VECTORS),
    Typed(Annotated[str, gs.Text(3, charset="xyz")], st.text("xyz", min_size=1, max_size=3)),
    Typed(Shape, st.builds(Circle, size=FLOATS) | st.builds(Square, size=FLOATS)),
    Typed(Circle | Square | None, st.none() | st.builds(Square, size=FLOATS)),
    Typed(Steps, st.builds(Steps, st.lists(st.integers(0, 9), max_size=3))),
    Typed(Annotated[Any, Sample(gs.MultiBinary(3))], BITS),
    Typed(
        dict[Annotated[int, Field(ge=0, le=3)], bool],
        st.dictionaries(st.integers(0, 3), st.booleans(), max_size=3),
    ),
]
LEAVES = st.sampled_from(SCALARS + OTHERS)


def _list(inner: Typed) -> Typed:
    return Typed(list[inner.annotation], st.lists(inner.values, max_size=3))  # type: ignore[name-defined]


def _fixed(inner: Typed, count: int) -> Typed:
    annotation = Annotated[list[inner.annotation], Field(min_length=count, max_length=count)]  # type: ignore[name-defined]
    return Typed(annotation, st.lists(inner.values, min_size=count, max_size=count))


def _row(inner: Typed, count: int) -> Typed:
    annotation = Annotated[
        tuple[inner.annotation, ...],  # type: ignore[name-defined]
        Field(min_length=count, max_length=count),
    ]
    return Typed(annotation, st.tuples(*[inner.values] * count))


def _tuple(inner: list[Typed]) -> Typed:
    return Typed(
        tuple[tuple(item.annotation for item in inner)],  # type: ignore[misc]
        st.tuples(*(item.values for item in inner)),
    )


def _endless(inner: Typed) -> Typed:
    return Typed(
        tuple[inner.annotation, ...],  # type: ignore[name-defined]
        st.lists(inner.values, max_size=3).map(tuple),
    )


def _in_union(inner: Typed) -> bool:
    # Python itself refuses a named space there: spaces have no hash.
    try:
        return hash(inner.annotation) is not None
    except TypeError:
        return False


def _optional(inner: Typed) -> Typed:
    return Typed(Optional[inner.annotation], st.none() | inner.values)  # noqa: UP045


def _union(inner: list[Typed]) -> Typed:
    return Typed(
        Union[tuple(item.annotation for item in inner)],  # noqa: UP007
        st.one_of(*(item.values for item in inner)),
    )


def _dict(inner: Typed) -> Typed:
    return Typed(
        dict[str, inner.annotation],  # type: ignore[name-defined]
        st.dictionaries(TEXTS, inner.values, max_size=3),
    )


def _labelled(inner: Typed) -> Typed:
    keys = st.sampled_from(["left", "right"])
    return Typed(
        dict[Literal["left", "right"], inner.annotation],  # type: ignore[name-defined]
        st.dictionaries(keys, inner.values, max_size=2),
    )


def _complete(inner: Typed) -> Typed:
    return Typed(
        Annotated[dict[Colour, inner.annotation], Field(min_length=2)],  # type: ignore[name-defined]
        st.fixed_dictionaries(dict.fromkeys(Colour, inner.values)),
    )


def _model(inner: list[Typed]) -> Typed:
    fields = {f"f{i}": (item.annotation, ...) for i, item in enumerate(inner)}
    model = create_model("Inner", __base__=Arrays, **fields)  # type: ignore[call-overload]
    return Typed(model, st.builds(model, **{f"f{i}": x.values for i, x in enumerate(inner)}))


class Arrays(BaseModel, arbitrary_types_allowed=True):
    pass


def _nest(inner: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
    several = st.lists(inner, min_size=1, max_size=3)
    counts = st.integers(1, 3)
    return st.one_of(
        inner.map(_list),
        st.builds(_fixed, inner, counts),
        st.builds(_row, inner, counts),
        several.map(_tuple),
        inner.map(_endless),
        inner.filter(_in_union).map(_optional),
        st.lists(inner.filter(_in_union), min_size=1, max_size=3).map(_union),
        inner.map(_dict),
        inner.map(_labelled),
        inner.map(_complete),
        several.map(_model),
    )


SETS = st.sampled_from([item for item in SCALARS if item.hashable]).flatmap(
    lambda item: st.sampled_from(
        [
            Typed(set[item.annotation], st.sets(item.values)),  # type: ignore[name-defined]
            Typed(frozenset[item.annotation], st.frozensets(item.values)),  # type: ignore[name-defined]
        ]
    )
)


def types() -> st.SearchStrategy[Typed]:
    """Types of fields that have a space."""
    return st.recursive(LEAVES | SETS, _nest, max_leaves=4)


def action(annotation: Any) -> type[Action]:
    """A model with one field of that type."""
    return create_model("One", __base__=Action, field=(annotation, ...))


def assert_equal(a: Any, b: Any, path: str = "value") -> None:
    """Two values of a field are equal and of the same types all the way down."""
    assert type(a) is type(b), (path, a, b)
    if isinstance(a, BaseModel):
        for name in type(a).model_fields:
            assert_equal(getattr(a, name), getattr(b, name), f"{path}.{name}")
    elif isinstance(a, np.ndarray):
        assert a.dtype == b.dtype and np.array_equal(a, b), path
    elif isinstance(a, dict):
        assert a.keys() == b.keys(), path
        for key in a:
            assert_equal(a[key], b[key], f"{path}[{key!r}]")
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b), (path, a, b)
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            assert_equal(x, y, f"{path}[{i}]")
    else:
        assert a == b, (path, a, b)
