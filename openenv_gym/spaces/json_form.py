"""Sample <-> JSON, and the JSON Schema of a space's samples (``docs/spaces.md`` section 3).

One class for each class of spaces says how its samples are written, how they are read, and what
their schema is; the table `_FORMS` lists them. Reading takes the JSON form and the sample itself,
also one inside the other, because a caller in Python has samples and a caller elsewhere has JSON.
What is in neither form is left as it is: whoever reads checks afterwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import concatenate, create_empty_array, iterate

from openenv_gym.errors import SpaceError
from openenv_gym.models.fields import Array, array_from_lists
from openenv_gym.spaces.actions import refusal
from openenv_gym.spaces.readers import as_box


if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["json_schema", "sample_from_json", "sample_to_json"]


def sample_to_json(space: gymnasium.Space[Any], sample: Any) -> Any:
    """Write a sample as plain JSON data.

    Args:
        space: The space.
        sample: A sample of it. Values are not checked; what is of another kind altogether is
            returned as it is.

    Returns:
        ``dict``, ``list``, ``str``, ``int``, ``float``, ``bool`` or None. Floats may be infinite
        or NaN, for which JSON has no number.
    """
    try:
        return _form(space).write(space, sample)
    except (AttributeError, LookupError, TypeError, ValueError):
        return sample


def sample_from_json(space: gymnasium.Space[Any], data: Any, name: str = "sample") -> Any:
    """Read a sample from its JSON form; the sample itself is taken, too.

    Args:
        space: The space.
        data: JSON data, a sample, or a mixture.
        name: What errors call it.

    Returns:
        The sample, with the dtypes of the space where it was JSON; arrays that were given are
        not copied. What is in no form that the space knows is returned as it is, and bounds are
        not looked at: check what you got.

    Raises:
        InvalidActionError: Lists of numbers are not of the shape of the space, or hold what its
            dtype cannot.
    """
    return _form(space).read(space, data, name)


def json_schema(space: gymnasium.Space[Any]) -> dict[str, Any]:
    """Return the JSON Schema of a space's samples in their JSON form.

    Args:
        space: Any space of Gymnasium's own classes.

    Raises:
        SpaceError: It holds a space of another class, or a Dict with keys that are equal once
            they are strings.
    """
    return _form(space).schema(space)


def _form(space: gymnasium.Space[Any]) -> _Form:
    form = _FORMS.get(type(space))
    if form is None:
        kind = f"{type(space).__module__}.{type(space).__qualname__}"
        raise SpaceError(
            f"Samples of a {kind} have no JSON form.",
            field="space",
            hint=f"Use one of {', '.join(cls.__name__ for cls in _FORMS)}.",
        )
    return form


class _Form(Protocol):
    """How samples of the spaces of one class are written and read."""

    def write(self, space: Any, sample: Any) -> Any:
        """Return the JSON form of a sample."""

    def read(self, space: Any, data: Any, name: str) -> Any:
        """Return the sample that is in its JSON form, or already a sample."""

    def schema(self, space: Any) -> dict[str, Any]:
        """Return the JSON Schema."""


class _ArrayForm:
    """Nested lists of numbers: Box, MultiBinary, MultiDiscrete."""

    def write(self, space: Any, sample: Any) -> Any:
        return np.asarray(sample).tolist()

    def read(self, space: Any, data: Any, name: str) -> Any:
        if isinstance(data, np.generic) or not isinstance(data, (list, tuple, bool, int, float)):
            return data
        return _read_lists(data, space.shape, np.dtype(space.dtype), name)

    def schema(self, space: Any) -> dict[str, Any]:
        box = as_box(space)
        return Array(box.shape, box.dtype, box.low, box.high).json_schema()


def _read_lists(data: Any, shape: tuple[int, ...], dtype: np.dtype[Any], name: str) -> NDArray[Any]:
    try:
        return array_from_lists(data, shape, dtype)
    except ValueError as error:
        problem = error
    # Truth values stand for 0 and 1 where it does not matter which they are.
    booleans = np.asarray(data) if dtype.kind != "b" and isinstance(data, (list, tuple)) else None
    if booleans is not None and booleans.dtype.kind == "b" and booleans.shape == shape:
        return booleans.astype(dtype)
    raise refusal(name, f"is not in the space: {problem}") from None


class _DiscreteForm:
    """An integer."""

    def write(self, space: spaces.Discrete[Any], sample: Any) -> int:
        return int(sample)

    def read(self, space: spaces.Discrete[Any], data: Any, name: str) -> Any:
        if type(data) is float and data.is_integer():  # JSON knows no difference
            data = int(data)
        if type(data) is int and int(space.start) <= data < int(space.start) + int(space.n):
            return space.dtype.type(data)
        return data

    def schema(self, space: spaces.Discrete[Any]) -> dict[str, Any]:
        first = int(space.start)
        return {"type": "integer", "minimum": first, "maximum": first + int(space.n) - 1}


class _TextForm:
    """A string."""

    def write(self, space: spaces.Text, sample: Any) -> Any:
        return sample

    def read(self, space: spaces.Text, data: Any, name: str) -> Any:
        return data

    def schema(self, space: spaces.Text) -> dict[str, Any]:
        return {
            "type": "string",
            "minLength": space.min_length,
            "maxLength": space.max_length,
            "charset": "".join(space.character_list),
        }


class _DictForm:
    """An object."""

    def write(self, space: spaces.Dict[Any], sample: Any) -> dict[str, Any]:
        return {str(key): sample_to_json(space[key], sample[key]) for key in space.spaces}

    def read(self, space: spaces.Dict[Any], data: Any, name: str) -> Any:
        if not isinstance(data, dict):
            return data
        # Keys that are integers are strings in JSON.
        known: dict[Any, Any] = dict(space.spaces)
        keys = {str(key): key for key in known if not isinstance(key, str)}
        found = {key if key in known else keys.get(key, key): data[key] for key in data}
        return {
            key: sample_from_json(space[key], value, f"{name}[{key!r}]")
            if key in space.spaces
            else value
            for key, value in found.items()
        }

    def schema(self, space: spaces.Dict[Any]) -> dict[str, Any]:
        properties = {str(key): json_schema(inner) for key, inner in space.spaces.items()}
        if len(properties) != len(space.spaces):
            raise SpaceError(
                "The keys of a Dict must differ as strings, since JSON has no others.",
                field="space",
            )
        return _object(properties)


class _TupleForm:
    """A list."""

    def write(self, space: spaces.Tuple[Any], sample: Any) -> list[Any]:
        pairs = zip(space.spaces, sample, strict=True)
        return [sample_to_json(inner, item) for inner, item in pairs]

    def read(self, space: spaces.Tuple[Any], data: Any, name: str) -> Any:
        if not isinstance(data, (list, tuple)) or len(data) != len(space.spaces):
            return data
        return tuple(
            sample_from_json(inner, item, f"{name}[{i}]")
            for i, (inner, item) in enumerate(zip(space.spaces, data, strict=True))
        )

    def schema(self, space: spaces.Tuple[Any]) -> dict[str, Any]:
        size = len(space.spaces)
        items = {"prefixItems": [json_schema(inner) for inner in space.spaces]} if size else {}
        return {"type": "array", **items, "minItems": size, "maxItems": size}


class _OneOfForm:
    """An object of the option's number and its sample."""

    def write(self, space: spaces.OneOf[Any], sample: Any) -> dict[str, Any]:
        index, value = sample
        return {"index": int(index), "value": sample_to_json(space.spaces[index], value)}

    def read(self, space: spaces.OneOf[Any], data: Any, name: str) -> Any:
        if isinstance(data, dict) and data.keys() == {"index", "value"}:
            data = (data["index"], data["value"])
        if not isinstance(data, tuple) or len(data) != 2:
            return data
        index = data[0]
        if type(index) not in (int, np.int64) or not 0 <= index < len(space.spaces):
            return data
        inner = space.spaces[index]
        return np.int64(index), sample_from_json(inner, data[1], f"{name}[1]")

    def schema(self, space: spaces.OneOf[Any]) -> dict[str, Any]:
        return {
            "oneOf": [
                _object({"index": {"const": index}, "value": json_schema(inner)})
                for index, inner in enumerate(space.spaces)
            ]
        }


class _SequenceForm:
    """A list of the items, whether their samples are stacked or not."""

    def write(self, space: spaces.Sequence, sample: Any) -> list[Any]:
        if not space.stack:
            return [sample_to_json(space.feature_space, item) for item in sample]
        return _write_stack(space.feature_space, space.stacked_feature_space, sample)

    def read(self, space: spaces.Sequence, data: Any, name: str) -> Any:
        inner = space.feature_space
        if space.stack:
            return _read_stack(inner, data, name) if isinstance(data, list) else data
        if not isinstance(data, (list, tuple)):
            return data
        return tuple(sample_from_json(inner, item, f"{name}[{i}]") for i, item in enumerate(data))

    def schema(self, space: spaces.Sequence) -> dict[str, Any]:
        return {"type": "array", "items": json_schema(space.feature_space)}


class _GraphForm:
    """An object of nodes, edges and pairs of the nodes that edges connect."""

    def write(self, space: spaces.Graph, sample: Any) -> dict[str, Any]:
        written: dict[str, Any] = {
            "nodes": _write_stack(space.node_space, space.batch_node_space, sample.nodes),
            "edges": None,
            "edge_links": None,
        }
        if sample.edges is not None and space.edge_space is not None:
            edges = _write_stack(space.edge_space, space.batch_edge_space, sample.edges)
            written.update(edges=edges, edge_links=np.asarray(sample.edge_links).tolist())
        return written

    def read(self, space: spaces.Graph, data: Any, name: str) -> Any:
        if not isinstance(data, dict) or not data.keys() <= {"nodes", "edges", "edge_links"}:
            return data
        edges, links = data.get("edges"), data.get("edge_links")
        if isinstance(edges, list) and space.edge_space is not None:
            edges = _read_stack(space.edge_space, edges, f"{name}.edges")
        if isinstance(links, list):
            shape = (len(links), 2)
            links = _read_lists(links, shape, np.dtype(np.int32), f"{name}.edge_links")
        nodes: Any = data.get("nodes")
        if isinstance(nodes, list):
            nodes = _read_stack(space.node_space, nodes, f"{name}.nodes")
        return spaces.GraphInstance(nodes, edges, links)

    def schema(self, space: spaces.Graph) -> dict[str, Any]:
        nothing: dict[str, Any] = {"type": "null"}
        edges = links = nothing
        if space.edge_space is not None:
            edges = {"anyOf": [{"type": "array", "items": json_schema(space.edge_space)}, nothing]}
            pair = {
                "type": "array",
                "items": {"type": "integer", "minimum": 0},
                "minItems": 2,
                "maxItems": 2,
            }
            links = {"anyOf": [{"type": "array", "items": pair}, nothing]}
        nodes = {"type": "array", "items": json_schema(space.node_space)}
        return _object({"nodes": nodes, "edges": edges, "edge_links": links})


def _write_stack(
    space: gymnasium.Space[Any], batched: gymnasium.Space[Any], samples: Any
) -> list[Any]:
    if isinstance(samples, np.ndarray):
        return samples.tolist()  # type: ignore[no-any-return]
    return [sample_to_json(space, item) for item in iterate(batched, samples)]


def _read_stack(space: gymnasium.Space[Any], data: list[Any], name: str) -> Any:
    items = [sample_from_json(space, item, f"{name}[{i}]") for i, item in enumerate(data)]
    stack: Any = create_empty_array(space, len(items))
    if not items:
        return stack
    try:
        return concatenate(space, items, stack)
    except (LookupError, TypeError, ValueError) as error:
        raise refusal(name, f"holds what is not in {space}: {error}") from None


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


_FORMS: dict[type[gymnasium.Space[Any]], _Form] = {
    spaces.Box: _ArrayForm(),
    spaces.Discrete: _DiscreteForm(),
    spaces.MultiBinary: _ArrayForm(),
    spaces.MultiDiscrete: _ArrayForm(),
    spaces.Text: _TextForm(),
    spaces.Dict: _DictForm(),
    spaces.Tuple: _TupleForm(),
    spaces.Sequence: _SequenceForm(),
    spaces.Graph: _GraphForm(),
    spaces.OneOf: _OneOfForm(),
}
