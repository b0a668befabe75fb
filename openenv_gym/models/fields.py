"""Annotations for fields that Pydantic has no type for: `Array`, a NumPy array of one form.

::

    class Frame(Observation):
        screen: Annotated[np.ndarray, Array(shape=(210, 160, 3), dtype="uint8")]

The annotation says everything that a space needs (`openenv_gym.spaces`) and everything that a
JSON client needs (``dtype`` and ``shape`` stand in the JSON Schema).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from pydantic_core import core_schema

from openenv_gym.errors import SpaceError


if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import ArrayLike, DTypeLike, NDArray
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue

__all__ = ["Array", "array_from_lists"]


class Array:
    """Annotation of a field that holds a NumPy array of one shape and one dtype.

    An ndarray is taken as it is, without a copy, when shape and dtype are exactly these; its
    values are not looked at, so that an observation costs the same whatever its size. (Actions
    are checked against the bounds of their space before they become a model.) Nested lists, which
    is what JSON holds, are converted where no value changes by that, and checked against the
    bounds.

    Attributes:
        shape: Shape of the array.
        dtype: Its dtype: bool, an integer or a floating-point type of at most 64 bits.
        low: Smallest values, read-only, of dtype `dtype` and of shape ``()`` or `shape`.
        high: Largest values, likewise.
    """

    __slots__ = ("dtype", "high", "low", "shape")

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    low: NDArray[Any]
    high: NDArray[Any]

    def __init__(
        self,
        shape: Iterable[int],
        dtype: DTypeLike,
        low: ArrayLike | None = None,
        high: ArrayLike | None = None,
    ) -> None:
        """Describe an array.

        Args:
            shape: Shape of the array.
            dtype: Its dtype.
            low: Smallest value, or smallest values in an array of that shape. None stands for
                the dtype's own limit, which for floats is infinity.
            high: Largest value or values, likewise.

        Raises:
            SpaceError: The dtype is not one of those, a bound does not fit dtype or shape, or
                some `low` is above its `high`.
        """
        dims = tuple(int(size) for size in shape)
        if any(size < 0 for size in dims):
            raise SpaceError(f"Array: shape {dims} has a negative size.", field="shape")
        kind = np.dtype(dtype)
        if kind.kind not in "biuf" or kind.itemsize > 8:
            raise SpaceError(
                f"Array: dtype {kind} is not taken.",
                field="dtype",
                hint="Use bool, an integer or a floating-point type of at most 64 bits.",
            )
        least, greatest = _limits(kind)
        lowest = _bound("low", least if low is None else low, dims, kind)
        highest = _bound("high", greatest if high is None else high, dims, kind)
        if np.any(lowest > highest):
            raise SpaceError("Array: some `low` is above its `high`.", field="low")
        object.__setattr__(self, "shape", dims)
        object.__setattr__(self, "dtype", kind)
        object.__setattr__(self, "low", lowest)
        object.__setattr__(self, "high", highest)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"Array is immutable; {name!r} cannot be set.")

    def __reduce__(self) -> tuple[Any, ...]:
        return Array, (self.shape, self.dtype, self.low, self.high)

    def __repr__(self) -> str:
        text = f"Array(shape={self.shape}, dtype={str(self.dtype)!r}"
        least, greatest = _limits(self.dtype)
        for name, bound, limit in (("low", self.low, least), ("high", self.high, greatest)):
            if not np.all(bound == limit):
                text += f", {name}={bound.tolist() if bound.size <= 8 else '<array>'}"
        return text + ")"

    # Python hashes annotations (`X | None` does), and arrays have no hash.
    def _key(self) -> tuple[Any, ...]:
        return self.shape, self.dtype.str, self.low.tobytes(), self.high.tobytes()

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Array) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    # -- Pydantic ---------------------------------------------------------------------------

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        """Validate with `validate`; as JSON, write nested lists."""
        return core_schema.no_info_plain_validator_function(
            self.validate,
            serialization=core_schema.plain_serializer_function_ser_schema(
                _to_lists, when_used="json"
            ),
        )

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Describe the nested lists."""
        return self.json_schema()

    def json_schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the nested lists, with `dtype` and `shape` beside `type`."""
        described: dict[str, Any] = {
            "type": {"b": "boolean", "f": "number"}.get(self.dtype.kind, "integer")
        }
        if self.dtype.kind != "b":
            for keyword, bounds, extreme in (
                ("minimum", self.low, np.min),
                ("maximum", self.high, np.max),
            ):
                # The keyword is for all elements, so with bounds for each it is the widest.
                bound = extreme(bounds).item() if bounds.size else math.inf
                if math.isfinite(bound):
                    described[keyword] = bound
        for size in reversed(self.shape):
            described = {
                "type": "array",
                "items": described,
                "minItems": size,
                "maxItems": size,
            }
        return {**described, "dtype": str(self.dtype), "shape": list(self.shape)}

    def validate(self, value: Any) -> NDArray[Any]:
        """Return `value` as an array of this form.

        Args:
            value: An ndarray (or NumPy scalar, for shape ``()``) of exactly this shape and
                dtype, or nested lists or tuples of numbers.

        Returns:
            The very array that was given, or a new one made from lists.

        Raises:
            ValueError: It is something else, or a value from a list is out of bounds.
        """
        if isinstance(value, np.ndarray):
            if value.dtype == self.dtype and value.shape == self.shape:
                return value
        elif isinstance(value, np.generic):
            if value.dtype == self.dtype and self.shape == ():
                return np.asarray(value)
        elif isinstance(value, (list, tuple, bool, int, float)):
            return self._within_bounds(array_from_lists(value, self.shape, self.dtype))
        else:
            raise ValueError(f"{_expected(self.shape, self.dtype)}, got a {type(value).__name__}")
        raise ValueError(
            f"{_expected(self.shape, self.dtype)}, got shape {value.shape} and dtype {value.dtype}"
        )

    def _within_bounds(self, array: NDArray[Any]) -> NDArray[Any]:
        for outside, bound, word in (
            (array < self.low, self.low, "below"),
            (array > self.high, self.high, "above"),
        ):
            if np.any(outside):
                index = tuple(int(i) for i in np.argwhere(outside)[0])
                limit = np.broadcast_to(bound, self.shape)[index]
                raise ValueError(f"value {array[index]} at {list(index)} is {word} {limit}")
        return array


def array_from_lists(value: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Make an array from nested lists of numbers where that changes no value's meaning.

    Args:
        value: Nested lists or tuples of Python numbers; for shape ``()``, one number.
        shape: Shape that they must have.
        dtype: Dtype of the array. Integers take floats that are whole numbers (JSON knows no
            difference); floats round to the nearest; bool takes only booleans and nothing else
            takes those.

    Returns:
        A new array of that shape and dtype.

    Raises:
        ValueError: The lists are ragged, of another shape, or hold something else or a number
            that the dtype cannot hold.
    """
    expected = _expected(shape, dtype)
    try:
        array = np.array(value)
        # Python integers beyond 64 bits, or uint64 beside int64, come out as float64 or object:
        # only from objects can one tell which integers they were.
        if dtype.kind in "iu" and array.dtype.kind in "fO":
            array = np.array(value, dtype=object)
            array = np.array([_whole(item) for item in array.flat], object).reshape(array.shape)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise ValueError(f"{expected}; {error}") from None
    if array.size == 0:
        empty: NDArray[Any] = np.empty(shape, dtype)
        # `[]` stands for shapes (0,) and (0, 3) alike.
        if empty.size == 0 and empty.tolist() == _to_plain(value):
            return empty
    if array.shape != shape:
        raise ValueError(f"{expected}, got one of shape {array.shape}")
    if array.dtype.kind not in {"b": "b", "i": "iuO", "u": "iuO", "f": "iuf"}[dtype.kind]:
        raise ValueError(f"{expected}, got one of {array.dtype}")
    if dtype.kind in "iu":
        least, greatest = int(array.min()), int(array.max())
        limits = np.iinfo(dtype)
        if least < limits.min or greatest > limits.max:
            wrong = least if least < limits.min else greatest
            raise ValueError(f"{expected}, got {wrong}, which {dtype} cannot hold")
    with np.errstate(over="ignore"):
        result = array.astype(dtype)
    if dtype.kind == "f" and np.any(np.isinf(result) & ~np.isinf(array)):
        raise ValueError(f"{expected}, got a number that {dtype} cannot hold")
    return result


def _whole(item: Any) -> int:
    if isinstance(item, float) and item.is_integer():
        return int(item)
    if isinstance(item, (int, np.integer)) and not isinstance(item, bool):
        return int(item)
    raise ValueError(f"{item!r} is not an integer")


def _to_plain(value: Any) -> Any:
    return [_to_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def _to_lists(value: Any) -> Any:
    # `model_construct` puts anything into a field; what is no array is left to Pydantic.
    return value.tolist() if isinstance(value, np.ndarray) else value


def _expected(shape: tuple[int, ...], dtype: np.dtype[Any]) -> str:
    return f"expected an array of shape {shape} and dtype {dtype}"


def _limits(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    if dtype.kind == "b":
        return False, True
    if dtype.kind == "f":
        return -math.inf, math.inf
    limits = np.iinfo(dtype)
    return int(limits.min), int(limits.max)


def _bound(
    name: str, value: ArrayLike, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> NDArray[Any]:
    given = np.asarray(value)
    if given.shape not in ((), shape):
        raise SpaceError(
            f"Array: `{name}` has shape {given.shape}, expected one number or shape {shape}.",
            field=name,
        )
    # Lists go on as they came, since `asarray` made floats of large integers; arrays as lists,
    # since a bound may be given in another dtype than the array's own.
    numbers = value if isinstance(value, (list, tuple)) else given.tolist()
    try:
        if dtype.kind == "b" and np.all((given == 0) | (given == 1)):
            numbers = given.astype(bool).tolist()
        bound = array_from_lists(numbers, given.shape, dtype)
    except ValueError as error:
        raise SpaceError(f"Array: `{name}`: {error}.", field=name) from None
    if np.any(np.isnan(bound)):
        raise SpaceError(f"Array: `{name}` is not a number (NaN).", field=name)
    bound.flags.writeable = False
    return bound
