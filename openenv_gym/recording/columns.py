"""Rows of values to columns and back; a column's numbers lie in one array.

Whatever the protocol's codec carries comes back as the codec would bring it. What does not fit an
array (text, graphs, sets) is kept as a list of values.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from openenv_gym.errors import DecodeError, EncodeError, RecordingDamagedError
from openenv_gym.protocol.codec import encode_packet
from openenv_gym.recording.format import Parts
from openenv_gym.recording.snapshots import copy_bits


__all__ = ["Column", "pack_column", "read_column"]

Tree = list[Any]
"""Says how the rows of a column are made of blocks (docs/recording.md)."""

Load = Callable[[Any], Any]
"""Returns the value of a block by its number."""

_MAX_FORMS = 8  # more of them in one column are kept as values
_MAX_ITEMS = 256  # of a dict, tuple or list whose items have columns of their own
_MAX_DEPTH = 12
_MAX_DIMENSIONS = 30  # the codec carries two more
_SWAPPED_BYTES = 64  # smaller pieces cost more to move than they save
_OBJECTS = 4096  # values in a block

# NumPy's numbers, whose arrays give back scalars of the same class.
_NUMBERS = frozenset(np.dtype(code).type for code in "?bhilBHILefdFD")
_PLAIN: dict[type, tuple[str, str]] = {float: ("float", "<f8"), int: ("int", "<i8")}
_PLAIN[bool] = ("bool", "?")


# -- to columns ---------------------------------------------------------------------------------


def pack_column(
    values: Sequence[Any], blocks: list[Parts], name: str, *, num_envs: int = 0, depth: int = 0
) -> Tree:
    """Make a column.

    Args:
        values: Its rows, at least one.
        blocks: Where its blocks go.
        name: What errors call it.
        num_envs: Of a vector; arrays with as many rows are stored by sub-environment.
        depth: Of this column inside others.

    Returns:
        How the rows are made of the blocks.

    Raises:
        EncodeError: A value cannot be kept; `field` is its path.
    """
    pack_in = _Packing(blocks, name, num_envs, depth)
    first = _form(values[0], depth)
    if isinstance(first, tuple) and first[0] is np.ndarray and _all_arrays(values, *first[1:]):
        return pack_in.alike(values, first)
    forms = [_form(value, depth) for value in values]
    distinct = list(dict.fromkeys(forms))
    if len(distinct) == 1:
        return pack_in.alike(values, distinct[0])
    if len(distinct) > _MAX_FORMS:
        return pack_in.objects(values)
    numbers = {form: number for number, form in enumerate(distinct)}
    codes = [numbers[form] for form in forms]
    block = pack_in.block(np.array(codes, np.uint8))
    trees = [
        pack_in.alike(
            [value for value, code in zip(values, codes, strict=True) if code == number], form
        )
        for number, form in enumerate(distinct)
    ]
    return ["mixed", block, trees]


def _form(value: Any, depth: int) -> Any:
    """Return what values of one column have in common; None where they do not fit an array."""
    kind = type(value)
    if kind is np.ndarray:
        if value.dtype.hasobject or value.ndim > _MAX_DIMENSIONS or not value.dtype.itemsize:
            return None
        return kind, value.dtype, value.shape
    if kind is int:
        return kind if -(2**63) <= value < 2**63 else None
    if kind in _PLAIN or value is None or kind in _NUMBERS:
        return kind
    if depth < _MAX_DEPTH:
        if kind is dict and len(value) <= _MAX_ITEMS:
            return kind, tuple((type(key), key) for key in value)
        if kind in (tuple, list) and len(value) <= _MAX_ITEMS:
            return kind, len(value)
    return None


def _all_arrays(values: Sequence[Any], dtype: np.dtype[Any], shape: tuple[int, ...]) -> bool:
    """Tell whether all values are arrays of this form: what most columns are, found fast."""
    return all(
        type(value) is np.ndarray and value.shape == shape and value.dtype == dtype
        for value in values
    )


class _Packing:
    """Makes a column of values of one form."""

    def __init__(self, blocks: list[Parts], name: str, num_envs: int, depth: int) -> None:
        self._blocks = blocks
        self._name = name
        self._num_envs = num_envs
        self._depth = depth

    def block(self, value: Any) -> int:
        self._blocks.append(encode_packet([value], names=[self._name]))
        return len(self._blocks) - 1

    def alike(self, values: Sequence[Any], form: Any) -> Tree:
        """Make a column of values that have this form."""
        if form is None:
            return self.objects(values)
        if form is type(None):
            return ["none"]
        kind = form[0] if isinstance(form, tuple) else form
        if kind in _PLAIN:
            word, dtype = _PLAIN[kind]
            return [word, self.block(np.array(values, dtype))]
        if kind is np.ndarray:
            return self._arrays(values)
        if kind is dict:
            keys = list(values[0])
            trees = [self._inner([value[key] for value in values], f"[{key!r}]") for key in keys]
            return ["dict", keys, trees]
        if kind in (tuple, list):
            columns = zip(*values, strict=True)
            trees = [self._inner(column, f"[{at}]") for at, column in enumerate(columns)]
            return [kind.__name__, trees]
        return ["scalar", self.block(np.array(values, values[0].dtype))]

    def _inner(self, values: Sequence[Any], path: str) -> Tree:
        return pack_column(
            values,
            self._blocks,
            self._name + path,
            num_envs=self._num_envs,
            depth=self._depth + 1,
        )

    def _arrays(self, values: Sequence[Any]) -> Tree:
        first = values[0]
        rows, shape, dtype = len(values), first.shape, first.dtype
        swapped = (
            self._num_envs > 1
            and shape[:1] == (self._num_envs,)
            and first.nbytes >= _SWAPPED_BYTES * self._num_envs
        )
        if dtype.kind == "V":
            # Assigning structures may leave out the bytes between their fields.
            joined = bytearray(b"".join(value.tobytes() for value in values))
            stacked = np.frombuffer(joined, dtype).reshape(rows, *shape)
            swapped = False
        elif swapped:
            stacked = np.empty((shape[0], rows, *shape[1:]), dtype)
            for row, value in enumerate(values):
                stacked[:, row] = value
        else:
            stacked = np.empty((rows, *shape), dtype)
            for row, value in enumerate(values):
                stacked[row] = value
        try:
            return ["swapped" if swapped else "array", self.block(stacked)]
        except EncodeError:  # together they claim what each alone does not, or one is to blame
            return self.objects(values)

    def objects(self, values: Sequence[Any], count: int = _OBJECTS) -> Tree:
        """Keep values as they are, in several blocks where there are many."""
        blocks = []
        for begin in range(0, len(values), count):
            part = list(values[begin : begin + count])
            try:
                blocks.append(self.block(part))
            except EncodeError:
                if len(part) == 1:
                    raise
                # A packet has a limit on its items; the value to blame, if any, is found alone.
                blocks += self.objects(part, (len(part) + 1) // 2)[1]
        return ["objects", blocks]


# -- from columns -------------------------------------------------------------------------------


class Column:
    """Rows that are made of blocks when they are asked for."""

    def row(self, row: int) -> Any:
        """Return a row, in memory of its own."""
        raise NotImplementedError

    def array(self) -> Any:
        """Return the rows as one array, first dimension first; None where they are none."""
        return None

    def parts(self) -> Any:
        """Return the columns inside of a dict, tuple or list; None for any other."""
        return None


class _Nones(Column):
    def row(self, row: int) -> Any:
        return None


class _Arrays(Column):
    def __init__(self, array: Any) -> None:
        self._array = array

    def array(self) -> Any:
        return self._array

    def row(self, row: int) -> Any:
        return copy_bits(self._array[row, ...])  # also of shape (), which is no scalar


class _Scalars(_Arrays):
    def row(self, row: int) -> Any:
        return self._array[row]


class _Plain(_Arrays):
    def row(self, row: int) -> Any:
        return self._array[row].item()


class _Parts(Column):
    def __init__(self, columns: list[Column], make: Callable[[list[Any]], Any], of: Any) -> None:
        self._columns = columns
        self._make = make
        self._of = of

    def parts(self) -> Any:
        return self._of(self._columns)

    def row(self, row: int) -> Any:
        return self._make([column.row(row) for column in self._columns])


class _Mixed(Column):
    def __init__(self, codes: Any, columns: list[Column]) -> None:
        self._codes = codes
        self._columns = columns
        self._rows = np.zeros(len(codes), np.int64)
        for code in range(len(columns)):
            chosen = codes == code
            self._rows[chosen] = np.arange(np.count_nonzero(chosen))

    def row(self, row: int) -> Any:
        return self._columns[self._codes[row]].row(int(self._rows[row]))


class _Objects(Column):
    def __init__(self, lists: list[list[Any]]) -> None:
        self._values = list(itertools.chain.from_iterable(lists))

    def row(self, row: int) -> Any:
        return self._values[row]


def read_column(tree: Any, count: int, load: Load, depth: int = 0) -> Column:
    """Return a column; its blocks are loaded now.

    Args:
        tree: What `pack_column` returned, from a file: not trusted.
        count: Number of rows.
        load: Returns the value of a block.
        depth: Of this column inside others.

    Raises:
        RecordingDamagedError: It is none, or has not as many rows.
        DecodeError: A block cannot be read.
    """
    if depth > _MAX_DEPTH or _kind_of(tree) is None:
        raise RecordingDamagedError(f"A column is described by {tree!r:.60}.")
    match tree:
        case ["none"]:
            return _Nones()
        case ["array" | "swapped" | "scalar" | "float" | "int" | "bool" as kind, block]:
            return _read_array(kind, load(block), count)
        case ["dict", list(keys), list(trees)] if len(keys) == len(trees) <= _MAX_ITEMS:
            columns = [read_column(each, count, load, depth + 1) for each in trees]
            try:
                dict.fromkeys(keys)
            except TypeError as error:
                raise RecordingDamagedError(f"A column has keys that are none: {error}") from None
            return _Parts(
                columns,
                lambda items: dict(zip(keys, items, strict=True)),
                lambda found: dict(zip(keys, found, strict=True)),
            )
        case ["tuple" | "list" as kind, list(trees)] if len(trees) <= _MAX_ITEMS:
            columns = [read_column(each, count, load, depth + 1) for each in trees]
            make: Callable[[list[Any]], Any] = tuple if kind == "tuple" else list
            return _Parts(columns, make, make)
        case ["mixed", block, list(trees)] if len(trees) <= _MAX_FORMS:
            # As they are written, those of a "mixed" are as deep as it is itself, and none of them
            # is another one: so the depth bounds all trees.
            if any(_kind_of(each) == "mixed" for each in trees):
                raise RecordingDamagedError("A column is mixed of such as are mixed themselves.")
            codes = load(block)
            _check_array(codes, count, np.dtype(np.uint8))
            if count and int(codes.max()) >= len(trees):
                raise RecordingDamagedError("A row is of a form that its column has not.")
            counts = [int(np.count_nonzero(codes == code)) for code in range(len(trees))]
            columns = [
                read_column(each, rows, load, depth)
                for each, rows in zip(trees, counts, strict=True)
            ]
            return _Mixed(codes, columns)
        case ["objects", list(blocks)]:
            lists = [load(block) for block in blocks]
            if any(type(each) is not list for each in lists) or sum(map(len, lists)) != count:
                raise RecordingDamagedError(f"A column of objects has not {count} rows.")
            return _Objects(lists)
    raise RecordingDamagedError(f"A column is described by {tree!r:.60}.")


def _kind_of(tree: Any) -> str | None:
    """Return the first word of a tree; None where there is none."""
    return tree[0] if type(tree) is list and tree and type(tree[0]) is str else None


def _read_array(kind: str, array: Any, count: int) -> Column:
    if kind == "swapped":
        if type(array) is not np.ndarray or array.ndim < 2:
            raise RecordingDamagedError("A column of batches has not two dimensions.")
        array = array.swapaxes(0, 1)
    wanted = {word: np.dtype(dtype) for word, dtype in _PLAIN.values()}.get(kind)
    _check_array(array, count, wanted)
    if wanted is not None or kind == "scalar":
        if array.ndim != 1:
            raise RecordingDamagedError("A column of numbers has more than one dimension.")
        return _Plain(array) if wanted is not None else _Scalars(array)
    return _Arrays(array)


def _check_array(array: Any, count: int, dtype: np.dtype[Any] | None) -> None:
    if type(array) is not np.ndarray or array.ndim < 1 or len(array) != count:
        raise RecordingDamagedError(f"A column has not {count} rows.")
    if array.dtype.hasobject or (dtype is not None and array.dtype != dtype):
        raise RecordingDamagedError(f"A column has the dtype {array.dtype}.")


def load_error(error: DecodeError) -> RecordingDamagedError:
    """Return the error for a block that the codec refused."""
    return RecordingDamagedError(f"A block cannot be read: {error.message}")
