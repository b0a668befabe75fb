"""Reading plain data that a peer sent: every value is checked, every error has a path."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np

from openenv_gym.errors import SpaceError


if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Budget", "Fields", "dtype_name", "pack_array"]

_T = TypeVar("_T")

_NAMES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64"),
)
_DTYPES: dict[str, np.dtype[Any]] = {name: np.dtype(name) for name in _NAMES}
# A dtype in the other byte order goes by NumPy's own short name (">f4").
_DTYPES.update(
    (swapped.str, swapped)
    for swapped in [dtype.newbyteorder() for dtype in _DTYPES.values()]
    if not swapped.isnative
)
_DTYPE_NAMES = {dtype: name for name, dtype in _DTYPES.items()}

_MAX_DIMENSIONS = 32  # NumPy 1.x takes no more.


def dtype_name(dtype: np.dtype[Any], path: str) -> str:
    """Return the name under which a dtype is sent.

    Raises:
        SpaceError: It differs between machines (``longdouble``) or is no number.
    """
    try:
        return _DTYPE_NAMES[dtype]
    except KeyError:
        raise SpaceError(
            f"{path} has dtype {dtype}, which cannot be sent.",
            field=path,
            hint=f"Use one of {', '.join(_NAMES)}.",
        ) from None


def pack_array(array: NDArray[Any]) -> bool | int | float | NDArray[Any]:
    """Return one number when all elements are that number, otherwise the array.

    Args:
        array: Booleans, integers or floats, of any shape. No NaN.

    Returns:
        A Python number, or an array of the same shape in C order and native byte order.
    """
    if array.size:
        first = array.flat[0]
        same = (array == first).all()
        if array.dtype.kind == "f":  # -0.0 equals 0.0 and is another number
            same = same and (np.signbit(array) == np.signbit(first)).all()
        if same:
            number: bool | int | float = first.item()
            return number
    return np.array(array, dtype=array.dtype.newbyteorder("="), order="C")


class Budget:
    """What the spaces read so far weigh in memory, and how much more they may grow.

    A few bytes can describe a space of any size: a constant bound stands for an array, a stacked
    Sequence holds its element's space twice. What the data carries itself is bounded by the frame
    that it came in; what it does not carry is bounded here.

    Attributes:
        weight: Bytes of all spaces read so far, roughly.
    """

    def __init__(self, limit: int) -> None:
        """Allow `limit` bytes beyond what the data carries."""
        self.weight = 0
        self._limit = limit
        self._left = limit

    def hold(self, size: int) -> None:
        """Count bytes that the data carried, or that nothing has been made for yet."""
        self.weight += size

    def grow(self, size: int, path: str) -> None:
        """Count bytes that the data did not carry.

        Raises:
            SpaceError: They are too many.
        """
        self.weight += size
        self._left -= size
        if self._left < 0:
            raise SpaceError(
                f"{path} would make the space's bounds take more than {self._limit >> 20} MiB.",
                field=path,
                hint="Use smaller arrays or a narrower dtype.",
            )


class Fields:
    """A mapping that a peer sent, read one field at a time.

    Each method names the field that it reads, raises `SpaceError` when that is missing or of
    another type, and gives back exactly the type that it says (`True` is no integer).
    """

    __slots__ = ("data", "path")

    def __init__(self, data: object, path: str) -> None:
        """Read `data`, which stands at `path`.

        Raises:
            SpaceError: It is no mapping.
        """
        self.path = path
        if not isinstance(data, dict):
            raise SpaceError(
                f"{path} is described by {_kind(data)}, expected a mapping.", field=path
            )
        self.data: dict[Any, Any] = data

    def fail(self, key: str, problem: str) -> NoReturn:
        """Raise `SpaceError` about the field `key`."""
        raise SpaceError(f"{self.path}: {key!r} {problem}.", field=f"{self.path}.{key}")

    def get(self, key: str) -> Any:
        """Return whatever the field holds."""
        if key not in self.data:
            self.fail(key, "is missing")
        return self.data[key]

    def text(self, key: str) -> str:
        """Return a string."""
        return self._exactly(key, str, "a string")

    def flag(self, key: str) -> bool:
        """Return a boolean."""
        return self._exactly(key, bool, "a boolean")

    def integer(self, key: str) -> int:
        """Return an integer."""
        return self._exactly(key, int, "an integer")

    def _exactly(self, key: str, kind: type[_T], expected: str) -> _T:
        value = self.get(key)
        if type(value) is not kind:
            self.fail(key, f"is {_kind(value)}, expected {expected}")
        return value

    def items(self, key: str) -> list[Any]:
        """Return a list."""
        value = self.get(key)
        if not isinstance(value, (list, tuple)):
            self.fail(key, f"is {_kind(value)}, expected a list")
        return list(value)

    def shape(self, key: str) -> tuple[int, ...]:
        """Return a list of sizes as a tuple."""
        sizes = self.items(key)
        if len(sizes) > _MAX_DIMENSIONS:
            self.fail(key, f"has {len(sizes)} dimensions, at most {_MAX_DIMENSIONS} are taken")
        for size in sizes:
            if type(size) is not int or not 0 <= size < 1 << 63:
                self.fail(key, f"holds {_short(size)}, expected sizes from 0")
        return tuple(sizes)

    def dtype(self, key: str, kinds: str = "biuf") -> np.dtype[Any]:
        """Return a dtype of one of NumPy's `kinds`."""
        name = self.text(key)
        dtype = _DTYPES.get(name)
        if dtype is None or dtype.kind not in kinds:
            known = ", ".join(name for name in _NAMES if _DTYPES[name].kind in kinds)
            self.fail(key, f"is {_short(name)}, expected one of {known}")
        return dtype

    def array(
        self, key: str, shape: tuple[int, ...], dtype: np.dtype[Any], budget: Budget
    ) -> NDArray[Any]:
        """Return an array of that form; one number stands for an array full of it.

        Args:
            key: Name of the field.
            shape: Shape that the array must have.
            dtype: Dtype that it must have.
            budget: Where its size counts.

        Returns:
            An array of shape `shape`, which the data may share, or a new one of shape ``()``.
        """
        value = self.get(key)
        size = math.prod(shape) * dtype.itemsize
        if isinstance(value, np.ndarray):
            if value.shape != shape:
                self.fail(key, f"has shape {value.shape}, expected {shape}")
            if value.dtype != dtype.newbyteorder("="):
                self.fail(key, f"has dtype {value.dtype}, expected {dtype}")
            budget.hold(size)
            return value
        taken = {"b": (bool,), "i": (int,), "u": (int,), "f": (float, int)}[dtype.kind]
        if type(value) not in taken:
            self.fail(key, f"is {_kind(value)}, expected one {dtype} or an array of them")
        if dtype.kind in "iu":
            limits = np.iinfo(dtype)
            fits = limits.min <= value <= limits.max
        else:
            # Infinite and NaN go through; the space says what it thinks of them.
            fits = not abs(value) > float(np.finfo(dtype).max) if dtype.kind == "f" else True
            fits = fits or (isinstance(value, float) and math.isinf(value))
        if not fits:
            self.fail(key, f"is {_short(value)}, which {dtype} cannot hold")
        budget.grow(size, f"{self.path}.{key}")
        return np.array(value, dtype=dtype)


def _kind(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


def _short(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:  # Python writes out no integer of thousands of digits
        return "a huge integer"
    return text if len(text) <= 60 else f"{text[:57]}..."
