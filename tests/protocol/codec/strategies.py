"""Hypothesis strategies for everything that the protocol carries: `values`."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import GraphInstance
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst


plain_dtypes = st.one_of(
    npst.boolean_dtypes(),
    npst.integer_dtypes(endianness="<"),
    npst.unsigned_integer_dtypes(endianness="<"),
    npst.floating_dtypes(endianness="<", sizes=(16, 32, 64)),
    npst.complex_number_dtypes(endianness="<", sizes=(64, 128)),
    npst.datetime64_dtypes(endianness="<"),
    npst.timedelta64_dtypes(endianness="<"),
    npst.unicode_string_dtypes(endianness="<"),
    npst.byte_string_dtypes(),
)


def structured(inner: st.SearchStrategy[np.dtype[Any]]) -> st.SearchStrategy[np.dtype[Any]]:
    fields = st.tuples(inner, st.lists(st.integers(0, 3), max_size=2).map(tuple))
    names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=3)
    return st.builds(
        lambda found, align: np.dtype(
            [(name, dtype, shape) for name, (dtype, shape) in found.items()], align=align
        ),
        st.dictionaries(names, fields, max_size=3),
        st.booleans(),
    )


dtypes = st.recursive(plain_dtypes, structured, max_leaves=3)
arrays = npst.arrays(dtypes, npst.array_shapes(min_dims=0, min_side=0, max_side=4))
texts = st.text(max_size=20)
integers = st.integers() | st.integers(-(2**70), 2**70) | st.integers(-(2**8190), 2**8190)
scalars = plain_dtypes.flatmap(lambda dtype: npst.arrays(dtype, ()).map(lambda array: array[()]))
hashables = st.recursive(
    st.none() | st.booleans() | integers | st.floats() | texts | st.binary(max_size=20) | st.complex_numbers(),
    lambda inner: st.lists(inner, max_size=3).map(tuple) | st.frozensets(inner, max_size=3),
    max_leaves=5,
)  # fmt: skip
values = st.recursive(
    hashables | arrays | scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(hashables, inner, max_size=4),
        st.sets(hashables, max_size=4),
        st.lists(inner, min_size=4, max_size=4).map(
            lambda items: np.fromiter(items, object, 4).reshape(2, 2)
        ),
        st.builds(GraphInstance, arrays, st.none() | arrays, st.none() | arrays),
    ),
    max_leaves=12,
)
