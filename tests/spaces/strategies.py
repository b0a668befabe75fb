"""Hypothesis strategies for Gymnasium spaces of every class, nested in every way.

`spaces()` gives spaces whose `sample` works (Gymnasium's Box overflows near the limits of int64
and uint64; `corpus.py` has those), so that tests can go on to samples: ``space.seed(n)`` first.
"""

from __future__ import annotations

import string
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces as gs
from hypothesis import strategies as st

from openenv_gym.spaces.compat import make_dict


FLOATS = ("float16", "float32", "float64")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")

shapes = st.lists(st.integers(1, 3), max_size=3).map(tuple)
seeds = st.integers(0, 2**31 - 1)


@st.composite
def boxes(draw: st.DrawFn, dtypes: tuple[str, ...] = (*FLOATS, *INTEGERS, "bool")) -> gs.Box:
    """A Box: each bound constant or one for each element, and infinite now and then."""
    dtype = np.dtype(draw(st.sampled_from(dtypes)))
    shape = draw(shapes)
    size = int(np.prod(shape))
    if dtype.kind == "b":
        return gs.Box(
            np.zeros(shape, np.int8), np.ones(shape, np.int8), shape=shape, dtype=dtype.type
        )
    if dtype.kind == "f":
        numbers = st.floats(-1000, 1000, width=16)
    else:
        limits = np.iinfo(dtype)
        numbers = st.integers(max(limits.min, -(2**40)), min(limits.max, 2**40))
    # Equal bounds are made the same, since no Box samples between 0.0 and -0.0.
    pairs = (
        st.tuples(numbers, numbers)
        .map(sorted)
        .map(lambda pair: pair if pair[0] < pair[1] else (pair[0], pair[0]))
    )
    if draw(st.booleans()):
        low, high = draw(pairs)
        lows, highs = np.full(size, low, dtype), np.full(size, high, dtype)
    else:
        bounds = [draw(pairs) for _ in range(size)]
        lows = np.array([low for low, _ in bounds], dtype)
        highs = np.array([high for _, high in bounds], dtype)
    lows, highs = lows.reshape(shape), highs.reshape(shape)
    if dtype.kind == "f" and draw(st.booleans()):
        lows[draw(st.sampled_from([np.s_[...], np.s_[:1]])) if shape else ...] = -np.inf
    if dtype.kind == "f" and draw(st.booleans()):
        highs[...] = np.inf
    if dtype.kind == "i" and draw(st.booleans()):
        return gs.Box(-np.inf, np.inf, shape=shape, dtype=dtype.type)
    return gs.Box(lows, highs, shape=shape, dtype=dtype.type)


@st.composite
def discretes(draw: st.DrawFn) -> gs.Discrete[Any]:
    dtype = draw(st.sampled_from(INTEGERS))
    low = 0 if dtype.startswith("u") else -60
    return gs.Discrete(draw(st.integers(1, 60)), start=draw(st.integers(low, 60)), dtype=dtype)


@st.composite
def multi_discretes(draw: st.DrawFn) -> gs.MultiDiscrete[Any]:
    dtype = draw(st.sampled_from(INTEGERS))
    shape = draw(st.lists(st.integers(1, 3), min_size=1, max_size=2).map(tuple))
    nvec = draw(st.lists(st.integers(1, 50), min_size=6, max_size=9))
    start = draw(st.lists(st.integers(0, 50), min_size=6, max_size=9))
    return gs.MultiDiscrete(
        np.resize(np.array(nvec, dtype), shape),
        dtype=np.dtype(dtype).type,
        start=np.resize(np.array(start, dtype), shape) if draw(st.booleans()) else None,
    )


multi_binaries = st.one_of(
    st.integers(1, 5).map(gs.MultiBinary),
    st.lists(st.integers(1, 3), min_size=1, max_size=3).map(gs.MultiBinary),
)


@st.composite
def texts(draw: st.DrawFn) -> gs.Text:
    charset = draw(st.permutations([*string.digits, *"äß漢\U0001f600 \n"]))
    shortest = draw(st.integers(0, 3))
    return gs.Text(
        draw(st.integers(shortest, 8)),
        min_length=shortest,
        charset="".join(charset[: draw(st.integers(1, 12))]),
    )


@st.composite
def graphs(draw: st.DrawFn) -> gs.Graph:
    # Older versions of Gymnasium take nothing else for nodes and edges, and mix up dtypes.
    simple = st.one_of(boxes(dtypes=("float32", "float64")), st.integers(1, 5).map(gs.Discrete))
    return gs.Graph(draw(simple), draw(st.none() | simple))


leaves: st.SearchStrategy[gymnasium.Space[Any]] = st.one_of(
    boxes(), discretes(), multi_discretes(), multi_binaries, texts(), graphs()
)


def _nest(
    inner: st.SearchStrategy[gymnasium.Space[Any]],
) -> st.SearchStrategy[gymnasium.Space[Any]]:
    keys = st.text(string.ascii_letters + "é._[]", min_size=1, max_size=4)
    several = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        st.builds(
            lambda items, sort_keys: make_dict(list(items.items()), sort_keys=sort_keys),
            st.dictionaries(keys, inner, min_size=1, max_size=3),
            st.booleans(),
        ),
        several.map(gs.Tuple),
        several.map(lambda found: gs.Tuple([found[0], *found])),  # one of them twice
        several.map(gs.OneOf),
        st.builds(gs.Sequence, inner, stack=st.booleans()),
    )


def spaces(max_leaves: int = 4) -> st.SearchStrategy[gymnasium.Space[Any]]:
    """Gymnasium spaces of every class, nested up to `max_leaves` spaces at the bottom."""
    return st.recursive(leaves, _nest, max_leaves=max_leaves)
