"""Prices, from wherever they come: read, checked, and laid out by day and stock."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from finrl_env.options import MAX_TICKERS, GeneratorOptions, parse_options
from finrl_env.server.generator import generate
from openenv_gym.errors import InvalidOptionError


__all__ = ["MAX_ROWS", "Prices", "read_prices"]

MAX_ROWS = 1_000_000
"""Most rows of data."""

_KEYS = ("date", "tic")
_PRICES = ("open", "high", "low", "close")
_LIMITS = {
    **dict.fromkeys(_PRICES, (0.0, 1e9, "a price above 0, up to 1e9")),
    "volume": (np.nextafter(0.0, -1.0), 1e15, "a volume from 0 to 1e15"),
}
"""Of each column, above what and up to what a number may be, and what it is called."""

_EMPTY = ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None"]
"""What a cell of a CSV file may hold in place of a number that is not known."""

_SAMPLE = ("AAPL", "IBM", "MSFT")
_GENERATED = "generated"


@dataclass(frozen=True, eq=False)
class Prices:
    """A market's numbers. Two are equal when all their numbers are.

    Attributes:
        tickers: Names of the stocks.
        dates: The days, ascending, such as ``2010-01-04``.
        columns: ``close``, and whichever others there are; each of shape (days, stocks), float64,
            without NaN.
    """

    tickers: tuple[str, ...]
    dates: tuple[str, ...]
    columns: Mapping[str, NDArray[np.float64]]

    @property
    def close(self) -> NDArray[np.float64]:
        """Closing prices, of shape (days, stocks)."""
        return self.columns["close"]

    @functools.cached_property
    def digest(self) -> str:
        """A text that other numbers do not have."""
        hashed = hashlib.sha256(repr((self.tickers, self.dates, sorted(self.columns))).encode())
        for name in sorted(self.columns):
            hashed.update(self.columns[name].tobytes())
        return hashed.hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Prices) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)


def read_prices(
    data: Any, *, tickers: Sequence[str] | None, missing: str, extra: Iterable[str] = ()
) -> Prices:
    """Read and check the prices that an environment trades at.

    Rows may come in any order. Columns that nobody asked for are left alone.

    Args:
        data: ``"sample"``; ``"generated"``, or a mapping with the key ``generator`` and the fields
            of `GeneratorOptions`; the path of a file ``.csv``, ``.csv.gz`` or ``.parquet``; a
            DataFrame; a mapping of columns; or a list of rows that are mappings.
        tickers: The stocks to read, in their order; None for all in that of the alphabet.
        missing: ``"error"``, ``"drop"`` or ``"forward"``: what becomes of days without a price.
        extra: Names of which further columns are read: those with such a name, or with which such
            a name begins (of ``vix_5_sma`` the column ``vix``).

    Returns:
        The prices.

    Raises:
        InvalidOptionError: There are none, or something is wrong with them; rows are counted
            from 1, without the header.
    """
    frame = _frame(data)
    names = {str(name): name for name in frame.columns}
    if len(names) < len(frame.columns):
        _refuse("two of its columns have the same name")
    for name in (*_KEYS, "close"):
        if name not in names:
            columns = ", ".join(names)[:200] or "none"
            _refuse(f"it has no column {name!r}; its columns are {columns}")
    if not len(frame):
        _refuse("it has no rows")
    if len(frame) > MAX_ROWS:
        _refuse(f"it has more than {MAX_ROWS:,} rows")
    asked = [f"{name}_" for name in extra]
    wanted = [
        name
        for name in names
        if name in _LIMITS or any(each.startswith(f"{name}_") for each in asked)
    ]
    read = pd.DataFrame({"row": np.arange(1, len(frame) + 1)})
    read["tic"] = _tickers(frame["tic"])
    chosen = _choose(read["tic"], tickers)
    read["date"] = _dates(frame["date"])
    for name in wanted:
        if name in ("row", *_KEYS):
            continue
        numbers = _numbers(name, frame[names[name]])
        # A column without any number, as the volume of an index, might as well not be there.
        if name not in _LIMITS or name == "close" or not np.isnan(numbers).all():
            read[name] = numbers
    read = read[read["tic"].isin(chosen)]
    _check_rows(read)
    return _lay_out(read, chosen, missing)


# -- where they come from -------------------------------------------------------------------------


def _frame(data: Any) -> pd.DataFrame:
    if isinstance(data, pd.DataFrame):
        return data.reset_index(drop=True)
    if isinstance(data, str):
        if data == "sample":
            return _sample()
        return generate(GeneratorOptions()) if data == _GENERATED else _file(data)
    if isinstance(data, Mapping) and "generator" in data:
        return generate(parse_options(GeneratorOptions, data, within="data"))
    rows = isinstance(data, (list, tuple)) and all(isinstance(row, Mapping) for row in data)
    if not rows and not isinstance(data, Mapping):
        _refuse(
            f"{data!r:.80} is neither 'sample', 'generated', a path, a DataFrame, columns nor rows"
        )
    if len(data) > MAX_ROWS:
        _refuse(f"it has more than {MAX_ROWS:,} rows")
    try:
        return pd.DataFrame(dict(data) if isinstance(data, Mapping) else list(data))
    except (TypeError, ValueError) as error:
        _refuse(f"it is no table: {error}")


@functools.cache
def _sample() -> pd.DataFrame:
    """Daily prices of three stocks, 2000-03-01 to 2013-03-01: the three that cover all of it.

    The source's prices are as traded, with a fall to a half or a seventh where a stock was split.
    They are scaled by what its adjusted close is to its close.
    """
    from bokeh_sampledata import stocks

    frames = []
    for ticker in _SAMPLE:
        frame = pd.DataFrame(getattr(stocks, ticker)).assign(tic=ticker)
        factor = frame["adj_close"] / frame["close"]
        frame[list(_PRICES)] = frame[list(_PRICES)].mul(factor, axis=0)
        # The product may miss the source's own number by its last bit.
        frame["close"] = frame["adj_close"]
        frames.append(frame)
    return pd.concat(frames, ignore_index=True)


def _file(path: str) -> pd.DataFrame:
    """Read a file where the server runs; pandas by itself would fetch URLs, too."""
    if not path.endswith((".csv", ".csv.gz", ".parquet")):
        _refuse(f"{path!r:.200} is neither 'sample', 'generated' nor a .csv, .csv.gz or .parquet")
    where = "The path is one of the machine or container that the server runs in."
    if not os.path.isfile(path):
        _refuse(f"there is no file {path!r:.200}", where)
    try:
        if path.endswith(".parquet"):
            return pd.read_parquet(path).reset_index(drop=True)
        return _csv(path)
    except ImportError as error:
        hint = "Where the server runs: pip install 'openenv-gym-finrl[parquet]'."
        _refuse(f"{path!r:.200} cannot be read: {error}", hint)
    except (OSError, ValueError) as error:  # what pandas and pyarrow raise of a damaged file, too
        _refuse(f"{path!r:.200} cannot be read: {error}", where)


def _csv(path: str) -> pd.DataFrame:
    names = pd.read_csv(path, nrows=0).columns
    # Left alone, pandas would take the ticker NA for an empty cell.
    empty = {name: [""] if name == "tic" else _EMPTY for name in names}
    return pd.read_csv(
        path,
        nrows=MAX_ROWS + 1,
        dtype=dict.fromkeys(_KEYS, str),
        keep_default_na=False,
        na_values=empty,
    )


# -- columns --------------------------------------------------------------------------------------


def _tickers(column: pd.Series[Any]) -> pd.Series[Any]:
    empty = np.flatnonzero(column.isna())
    if empty.size:
        _refuse(f"row {empty[0] + 1}: column 'tic' is empty")
    return column.astype(str)


def _choose(column: pd.Series[Any], tickers: Sequence[str] | None) -> tuple[str, ...]:
    there = sorted(column.unique())
    if tickers is None:
        if len(there) > MAX_TICKERS:
            _refuse(f"it has {len(there)} stocks, and at most {MAX_TICKERS} can be traded")
        return tuple(there)
    for ticker in tickers:
        if ticker not in there:
            raise InvalidOptionError(
                f"tickers={list(tickers)!r:.200}: the data have no {ticker!r:.40}.",
                field="tickers",
                hint=f"There are {', '.join(there)[:200]}.",
            )
    return tuple(tickers)


def _dates(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return dates without a time zone."""
    text = column if pd.api.types.is_datetime64_any_dtype(column) else column.astype(str)
    dates = pd.to_datetime(text, format="ISO8601", errors="coerce", utc=True)
    wrong = np.flatnonzero(dates.isna())
    if wrong.size:
        value = column.iloc[wrong[0]]
        _refuse(f"row {wrong[0] + 1}: column 'date' holds {value!r:.40}, no date as 2010-01-04")
    return dates.dt.tz_localize(None)


def _numbers(name: str, column: pd.Series[Any]) -> NDArray[np.float64]:
    """Return a column as float64; what is empty is NaN.

    Bounds are checked later, of the rows that count.
    """
    try:
        read = pd.to_numeric(column, errors="coerce")
    except (TypeError, ValueError) as error:  # lists in cells
        _refuse(f"column {name!r} holds something else than numbers: {error}")
    wrong = np.flatnonzero(read.isna() & column.notna())
    if wrong.size:
        value = column.iloc[wrong[0]]
        _refuse(f"row {wrong[0] + 1}: column {name!r} holds {value!r:.40}, no number")
    numbers: NDArray[np.float64] = read.to_numpy(np.float64, na_value=np.nan)
    return numbers


def _check_rows(read: pd.DataFrame) -> None:
    """Check that no row is there twice, and that prices are prices."""
    twice = np.flatnonzero(read.duplicated(list(_KEYS)))
    if twice.size:
        row = read.iloc[twice[0]]
        same = (read["tic"] == row["tic"]) & (read["date"] == row["date"])
        first = read.loc[same, "row"].iloc[0]
        _refuse(
            f"row {row['row']}: column 'date' holds {_text(row['date'])} for {row['tic']}, which "
            f"row {first} has already"
        )
    for name in read.columns.difference(["row", *_KEYS]):
        above, most, what = _LIMITS.get(name, (-np.inf, np.inf, "a finite number"))
        numbers = read[name].to_numpy()
        outside = np.isinf(numbers) | (numbers <= above) | (numbers > most)
        if outside.any():
            index = int(np.argmax(outside))
            _refuse(
                f"row {read['row'].iloc[index]}: column {name!r} holds {numbers[index]:g}, "
                f"expected {what}"
            )


# -- days and stocks ------------------------------------------------------------------------------


def _lay_out(read: pd.DataFrame, tickers: tuple[str, ...], missing: str) -> Prices:
    """Turn rows into matrices, and deal with what is not there."""
    dates = pd.DatetimeIndex(read["date"].unique()).sort_values()
    if len(dates) * len(tickers) > 2 * MAX_ROWS:
        _refuse(f"{len(dates):,} days of {len(tickers):,} stocks are too many")
    day = dates.get_indexer(read["date"])
    stock = pd.Index(tickers).get_indexer(read["tic"])
    columns = {}
    for name in read.columns.difference(["row", *_KEYS]):
        columns[name] = np.full((len(dates), len(tickers)), np.nan)
        columns[name][day, stock] = read[name]
    if missing == "error":
        _need_all(read, columns, dates, tickers)
    if missing == "forward":
        _carry_on(columns)
    known = ~np.any([np.isnan(column).any(axis=1) for column in columns.values()], axis=0)
    if known.sum() < 2:
        _refuse(f"with missing={missing!r} it has {known.sum()} days that can be traded, of 2")
    columns = {name: np.ascontiguousarray(column[known]) for name, column in columns.items()}
    for column in columns.values():
        column.flags.writeable = False
    return Prices(tickers, tuple(_texts(dates[known])), columns)


def _need_all(
    read: pd.DataFrame,
    columns: Mapping[str, NDArray[np.float64]],
    dates: pd.DatetimeIndex,
    tickers: tuple[str, ...],
) -> None:
    hint = "missing='drop' leaves such days out, missing='forward' takes the last price again."
    empty = np.isnan(columns["close"])
    there = np.zeros(empty.shape, bool)
    there[dates.get_indexer(read["date"]), pd.Index(tickers).get_indexer(read["tic"])] = True
    if not there.all():
        day, stock = np.argwhere(~there)[0]
        _refuse(
            f"{tickers[stock]} has no row for {_text(dates[day])}, which others have; of "
            f"{len(dates)} days it lacks {(~there[:, stock]).sum()}",
            hint,
        )
    for name in columns:
        holes = np.flatnonzero(np.isnan(read[name].to_numpy()))
        if holes.size:
            _refuse(f"row {read['row'].iloc[holes[0]]}: column {name!r} is empty", hint)


def _carry_on(columns: dict[str, NDArray[np.float64]]) -> None:
    """Fill each hole with what was last known; nothing is ever filled from a later day."""
    close = pd.DataFrame(columns["close"]).ffill().to_numpy()
    for name, column in columns.items():
        if name == "volume":
            filled = np.where(np.isnan(column), 0.0, column)
        elif name in ("open", "high", "low"):
            # A day without trade has one price.
            filled = np.where(np.isnan(column), close, column)
        else:
            filled = pd.DataFrame(column).ffill().to_numpy()
        columns[name] = np.where(np.isnan(close), np.nan, filled)


def _texts(dates: pd.DatetimeIndex) -> list[str]:
    """Return dates as text, with hours where they have such."""
    midnight = (dates == dates.normalize()).all()
    return list(dates.strftime("%Y-%m-%d" if midnight else "%Y-%m-%d %H:%M:%S"))


def _text(date: pd.Timestamp) -> str:
    return _texts(pd.DatetimeIndex([date]))[0]


def _refuse(problem: str, hint: str | None = None) -> NoReturn:
    raise InvalidOptionError(f"data: {problem}.", field="data", hint=hint)
