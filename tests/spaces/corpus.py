"""Spaces by hand: every class, and the corners that a random search seldom meets."""

from __future__ import annotations

import string
from collections import OrderedDict

import gymnasium
import numpy as np
from gymnasium import spaces as gs
from packaging.version import Version

from openenv_gym.spaces.compat import make_dict


_SHARED = gs.Box(-1, 1, (2,))
_SHARED_DISCRETE = gs.Discrete(100)
_INT64 = np.iinfo(np.int64)


def _limits(dtype: type[np.integer]) -> gs.Box:
    info = np.iinfo(dtype)
    return gs.Box(np.array([info.min]), np.array([info.max]), dtype=dtype)


SPACES = {
    # Box
    "box": gs.Box(-1.0, 1.0, (3,)),
    "box image": gs.Box(0, 255, (210, 160, 3), np.uint8),
    "box 0-d": gs.Box(0.0, 1.0, (), np.float64),
    "box 0-d int": gs.Box(-3, 3, (), np.int64),
    "box empty": gs.Box(0, 1, (0, 3), np.float32),
    "box float16": gs.Box(np.array([-65504, 0.1], np.float16), np.float16(65504), dtype=np.float16),
    "box bool": gs.Box(np.zeros((2, 2), np.int8), np.ones((2, 2), np.int8), dtype=np.bool_),
    "box bool fixed": gs.Box(np.array([0, 1]), np.array([1, 1]), dtype=np.bool_),
    "box int8": gs.Box(-128, 127, (2,), np.int8),
    "box int64 limits": _limits(np.int64),
    "box uint64 limits": _limits(np.uint64),
    "box uint64 each": gs.Box(
        np.array([0, 2**63 + 1], np.uint64),
        np.array([2**63, 2**64 - 1], np.uint64),
        dtype=np.uint64,
    ),
    "box int64 near limits": gs.Box(
        np.array([_INT64.min, _INT64.max - 1]),
        np.array([_INT64.min + 1, _INT64.max]),
        dtype=np.int64,
    ),
    "box infinite": gs.Box(-np.inf, np.inf, (2, 2)),
    "box half infinite": gs.Box(0, np.inf, (2,), np.float64),
    "box mixed infinite": gs.Box(
        np.array([-np.inf, 0, -np.inf], np.float32), np.array([np.inf, np.inf, 7], np.float32)
    ),
    "box int infinite": gs.Box(-np.inf, np.inf, (2,), np.int32),
    "box int half infinite": gs.Box(-np.inf, 5, (2,), np.int64),
    "box int mixed infinite": gs.Box(np.array([-np.inf, 0]), np.array([3, np.inf]), dtype=np.int16),
    "box negative zero": gs.Box(np.array([-0.0, 0.0]), np.array([0.0, 0.0]), dtype=np.float64),
    "box column-major": gs.Box(
        np.asfortranarray([[0, 1, 2], [3, 4, 5]]), np.full((2, 3), 9), dtype=np.int64
    ),
    "box one value": gs.Box(2, 2, (2,), np.int32),
    "box big-endian": gs.Box(
        np.array([-1, -2], ">i4"), np.array([1, 2], ">i4"), dtype=np.dtype(">i4")
    ),
    # Discrete
    "discrete": gs.Discrete(6),
    "discrete start": gs.Discrete(5, start=-2),
    "discrete huge": gs.Discrete(2**62),
    "discrete int32": gs.Discrete(7, dtype=np.int32),
    "discrete uint8": gs.Discrete(200, start=5, dtype=np.uint8),
    "discrete uint64": gs.Discrete(2**63, start=2**63 - 1, dtype=np.uint64),
    # MultiBinary
    "multi-binary": gs.MultiBinary(4),
    "multi-binary list": gs.MultiBinary([4]),
    "multi-binary 3-d": gs.MultiBinary([2, 1, 3]),
    # MultiDiscrete
    "multi-discrete": gs.MultiDiscrete([2, 3, 4]),
    "multi-discrete start": gs.MultiDiscrete([2, 2], start=[-1, 5]),
    "multi-discrete 2-d": gs.MultiDiscrete(np.array([[2, 3], [4, 5]]), dtype=np.int32),
    "multi-discrete uint8": gs.MultiDiscrete(np.array([3, 3]), dtype=np.uint8, start=[1, 1]),
    # Text
    "text": gs.Text(5),
    "text order": gs.Text(6, min_length=6, charset="zyxabc"),
    "text set": gs.Text(4, charset=frozenset("abcdefgh")),
    "text empty allowed": gs.Text(3, min_length=0, charset=string.printable),
    "text unicode": gs.Text(4, charset="äß漢字\U0001f600"),
    # Dict
    "dict sorted": gs.Dict({"b": gs.Discrete(2), "a": gs.Box(0, 1, (1,))}),
    "dict unsorted": make_dict([("b", gs.Discrete(2)), ("a", gs.Discrete(3))], sort_keys=False),
    "dict ordered": gs.Dict(OrderedDict(z=gs.Discrete(2), y=gs.Discrete(3))),
    "dict pairs": gs.Dict([("z", gs.Discrete(2)), ("y", gs.Discrete(3))]),
    "dict integer keys": gs.Dict({3: gs.Discrete(2), 1: gs.Discrete(3)}),
    "dict odd keys": gs.Dict({"": gs.Discrete(2), "type": gs.Discrete(3), "a.b": gs.Discrete(2)}),
    "dict empty": gs.Dict({}),
    "dict nested": gs.Dict({"x": gs.Dict({"y": gs.Dict({"z": gs.Discrete(2)})})}),
    # Tuple, OneOf
    "tuple": gs.Tuple([gs.Discrete(2), gs.Box(0, 1, (2,))]),
    "tuple empty": gs.Tuple([]),
    "tuple one space twice": gs.Tuple([_SHARED, gs.Discrete(2), _SHARED]),
    "dict one space deep and again": gs.Dict(
        {"a": gs.Tuple([_SHARED_DISCRETE, _SHARED]), "b": _SHARED, "c": _SHARED_DISCRETE}
    ),
    "one-of": gs.OneOf([gs.Discrete(2), gs.Box(0, 1, (2,)), gs.Text(3)]),
    # Sequence
    "sequence": gs.Sequence(gs.Box(0, 1, (2,))),
    "sequence stacked": gs.Sequence(gs.Discrete(4), stack=True),
    "sequence stacked dict": gs.Sequence(gs.Dict({"a": gs.Box(0, 1, (2,))}), stack=True),
    "sequence of sequences": gs.Sequence(gs.Sequence(gs.MultiBinary(2)), stack=True),
    # Graph
    "graph": gs.Graph(gs.Box(-1, 1, (3,)), gs.Discrete(5)),
    "graph without edges": gs.Graph(gs.Discrete(4), None),
    "graph of one space": gs.Graph(_SHARED, _SHARED),
    # all together
    "everything": gs.Dict(
        {
            "camera": gs.Box(0, 255, (4, 4, 3), np.uint8),
            "inventory": gs.Sequence(gs.Tuple([gs.Discrete(9), gs.Text(3)])),
            "order": gs.OneOf([gs.Tuple([]), gs.Dict({"to": gs.MultiDiscrete([3, 3])})]),
            "map": gs.Graph(gs.Discrete(3), gs.Box(0, 1, (2,))),
            "keys": gs.MultiBinary(5),
        }
    ),
}

if Version(gymnasium.__version__) >= Version("1.4"):
    SPACES["graph of anything"] = gs.Graph(gs.MultiBinary(2), gs.Text(2))

UNSAMPLED = {"box uint64 each", "box int64 near limits"}
"""Spaces that Gymnasium makes but cannot sample: its Box takes differences that overflow."""
