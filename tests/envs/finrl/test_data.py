"""Prices: where they come from, and what is said of those that are wrong."""

from __future__ import annotations

import datetime
import gzip
import re

import numpy as np
import pandas as pd
import pytest
from bokeh_sampledata import stocks

from finrl_env.server import prices as reading
from finrl_env.server.finrl_environment import FinRLEnvironment
from finrl_env.server.prices import read_prices
from openenv_gym.errors import InvalidOptionError

from .markets import DAYS, A, B, bare, frame, numbers, rows


def read(data, tickers=None, missing="error", extra=()):
    return read_prices(data, tickers=tickers, missing=missing, extra=extra)


def closes(data, **options):
    found = read(data, **options)
    return found.dates, found.tickers, found.close.tolist()


THREE = rows(A=A[:3], B=B[:3])
EXPECTED = (tuple(DAYS[:3]), ("A", "B"), [[10.0, 50.0], [10.5, 49.0], [11.0, 51.0]])


# -- sources --------------------------------------------------------------------------------------


def test_the_sample_is_the_adjusted_data():
    sample = read("sample")
    assert sample.tickers == ("AAPL", "IBM", "MSFT")
    assert sample.dates == tuple(stocks.AAPL["date"]) and len(sample.dates) == 3270
    for index, ticker in enumerate(sample.tickers):
        source = getattr(stocks, ticker)
        assert sample.close[:, index].tolist() == source["adj_close"]
        assert sample.columns["volume"][:, index].tolist() == source["volume"]
        factor = np.divide(source["adj_close"], source["close"])
        for name in ("open", "high", "low"):
            assert sample.columns[name][:, index] == pytest.approx(source[name] * factor)
    # AAPL was split in two on 2005-02-28: its raw close fell to a half, and is no loss.
    day = sample.dates.index("2005-02-28")
    assert stocks.AAPL["close"][day] < 0.6 * stocks.AAPL["close"][day - 1]
    assert sample.close[day, 0] > 0.95 * sample.close[day - 1, 0]


@pytest.mark.parametrize("name", ["prices.csv", "prices.csv.gz", "prices.parquet"])
def test_files(tmp_path, name):
    path = tmp_path / name
    table = pd.DataFrame(THREE)
    if name.endswith("parquet"):
        table.assign(date=pd.to_datetime(table["date"])).to_parquet(path)
    else:
        # As FinRL writes them: with an index that has no name.
        text = table.to_csv().encode()
        path.write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    assert closes(str(path)) == EXPECTED


def test_cells_of_a_csv_file(tmp_path):
    """A ticker may be called NA."""
    path = tmp_path / "prices.csv"
    path.write_text("date,tic,close,vix\n2020-01-01,NA,4.5,1\n20200102,NA,2.5,")
    assert closes(str(path)) == (tuple(DAYS[:2]), ("NA",), [[4.5], [2.5]])
    with pytest.raises(InvalidOptionError, match="row 2: column 'vix' is empty"):
        read(str(path), extra=["vix"])


@pytest.mark.parametrize(
    "data",
    [
        THREE,
        tuple(reversed(THREE)),
        pd.DataFrame(THREE).to_dict("list"),
        {
            name: column.to_numpy()
            for name, column in pd.DataFrame(THREE).drop(columns="tic").items()
        }
        | {"tic": ["A", "B"] * 3},
        pd.DataFrame(THREE).sample(frac=1.0, random_state=3),
        pd.DataFrame(THREE).assign(date=pd.to_datetime(pd.DataFrame(THREE)["date"])),
        pd.DataFrame(THREE).assign(date=[datetime.date.fromisoformat(r["date"]) for r in THREE]),
        pd.DataFrame(THREE).assign(close=lambda t: t["close"].astype(str), other="text"),
        pd.DataFrame(THREE).assign(close=lambda t: t["close"].astype("Float64")),
    ],
    ids=["rows", "reversed", "columns", "arrays", "shuffled", "datetime64", "dates", "text", "NA"],
)
def test_tables(data):
    assert closes(data) == EXPECTED


def test_a_table_is_not_changed():
    table = pd.DataFrame(THREE).sample(frac=1.0, random_state=3)
    before = table.copy()
    bare(table)
    pd.testing.assert_frame_equal(table, before)


def test_hours_and_time_zones():
    data = [{**row, "date": f"{row['date']}T16:00:00-05:00"} for row in THREE]
    assert read(data).dates[0] == "2020-01-01 21:00:00"
    environment = bare(data, start="2020-01-02", end="2020-01-03")
    assert environment.reset().date == "2020-01-02 21:00:00"
    assert environment.state.last_date == "2020-01-03 21:00:00"


def test_a_column_without_any_number_is_none():
    data = [{**row, "volume": None, "high": float("nan")} for row in THREE]
    assert closes(data) == EXPECTED and read(data).columns.keys() == {"close"}


def test_stocks_in_an_order_of_their_own():
    assert closes(THREE, tickers=["B", "A"])[1:] == (("B", "A"), [row[::-1] for row in EXPECTED[2]])
    assert closes(THREE, tickers=["B"])[1:] == (("B",), [[50.0], [49.0], [51.0]])
    first = bare(THREE, tickers=["B"]).reset()
    assert numbers(first) == [1_000_000.0, 50.0, 0.0]


def test_what_is_wrong_with_stocks_that_nobody_chose_does_not_matter():
    assert closes([*THREE, {"date": DAYS[0], "tic": "C", "close": -1}], tickers=["A"])[1] == ("A",)


def test_generated_prices():
    """Returns of many days have the drift, volatility and correlation that were asked for."""
    options = {"generator": "gbm", "days": 5_000, "drift": 0.5, "volatility": 0.3}
    found = read({**options, "stocks": 2, "correlation": 0.6, "seed": 5})
    assert found.tickers == ("S1", "S2") and (found.close[0] == 100.0).all()
    moves = np.diff(np.log(found.close), axis=0)
    assert moves.std(axis=0) * np.sqrt(252) == pytest.approx([0.3, 0.3], rel=0.03)
    assert moves.mean(axis=0) * 252 == pytest.approx([0.455, 0.455], abs=0.2)
    assert np.corrcoef(moves.T)[0, 1] == pytest.approx(0.6, abs=0.03)
    opening, high, low, close = (found.columns[name] for name in ("open", "high", "low", "close"))
    assert (high >= np.maximum(opening, close)).all() and (low <= np.minimum(opening, close)).all()
    assert (opening[1:] == close[:-1]).all()


def test_generated_prices_are_decided_by_their_seed():
    first, second, other = (read({"generator": "gbm", "seed": seed}) for seed in (1, 1, 2))
    assert first == second and hash(first) == hash(second) and first != other
    assert read("generated") == read({"generator": "gbm"})
    still = read({"generator": "gbm", "volatility": 0, "drift": 0, "stocks": 11, "days": 5})
    assert (still.close == 100.0).all() and still.tickers[0] == "S01"


@pytest.mark.parametrize("drift", [-10.0, 10.0])
def test_generated_prices_stay_prices(drift):
    close = read({"generator": "gbm", "days": 5000, "drift": drift, "volatility": 10.0}).close
    assert (close > 0).all() and (close <= 1e9).all()


# -- what is wrong --------------------------------------------------------------------------------


def changed(index, **fields):
    return [{**row, **fields} if at == index else row for at, row in enumerate(THREE)]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (changed(3, close=None), "row 4: column 'close' is empty. missing='drop' leaves"),
        (changed(3, close=float("nan")), "row 4: column 'close' is empty"),
        (changed(3, close="n/a"), "row 4: column 'close' holds 'n/a', no number"),
        (changed(3, close=[1.0]), "column 'close' holds"),
        (changed(3, close=0.0), "row 4: column 'close' holds 0, expected a price above 0"),
        (changed(3, close=-2.5), "row 4: column 'close' holds -2.5, expected a price above 0"),
        (changed(3, close=float("inf")), "row 4: column 'close' holds inf, expected a price"),
        (changed(3, close=2e9), "row 4: column 'close' holds 2e+09, expected a price"),
        (changed(0, volume=-1), "row 1: column 'volume' holds -1, expected a volume from 0"),
        (changed(0, high=3.0), "row 2: column 'high' is empty"),
        (changed(4, date="January"), "row 5: column 'date' holds 'January', no date as 2010-01-04"),
        (changed(4, date=None), "row 5: column 'date' holds"),
        (changed(4, tic=None), "row 5: column 'tic' is empty"),
        (changed(4, date=DAYS[1]), f"row 5: column 'date' holds {DAYS[1]} for A, which row 3 has"),
        ([*THREE, THREE[2]], f"row 7: column 'date' holds {DAYS[1]} for A, which row 3 has"),
        (
            THREE[:-1],
            f"B has no row for {DAYS[2]}, which others have; of 3 days it lacks 1. missing=",
        ),
        (
            [*THREE, *({"date": day, "tic": "C", "close": 1.0} for day in DAYS[1:3])],
            f"C has no row for {DAYS[0]}, which others have",
        ),
        (THREE[:2], "it has 1 days that can be traded, of 2"),
        ([], "it has no column 'date'; its columns are none"),
        ({"date": [], "tic": [], "close": []}, "it has no rows"),
        ([{"date": DAYS[0], "close": 1.0}], "it has no column 'tic'; its columns are date, close"),
        ([{"Date": DAYS[0], "tic": "A", "close": 1.0}], "it has no column 'date'"),
        ({"date": DAYS[:2], "tic": ["A"], "close": [1.0]}, "it is no table"),
        ({"date": "2020-01-01", "tic": "A", "close": 1.0}, "it is no table"),
        (pd.DataFrame(THREE).set_axis(["date", "tic", "tic"], axis=1), "have the same name"),
        ("/no/such/prices.csv", "there is no file '/no/such/prices.csv'. The path is one of"),
        ("/no/such/prices.parquet", "there is no file"),
        ("http://127.0.0.1:9/prices.csv", "there is no file"),
        ("file:///etc/prices.csv", "there is no file"),
        ("prices.xlsx", "neither 'sample', 'generated' nor a .csv"),
        (3, "3 is neither 'sample'"),
        ([1, 2], "is neither 'sample'"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_wrong_data(data, said):
    with pytest.raises(InvalidOptionError, match=re.escape(said)) as caught:
        bare(data)
    assert caught.value.field == "data"


def test_a_damaged_file(tmp_path):
    for name in ("prices.csv.gz", "prices.parquet"):
        (tmp_path / name).write_bytes(b"nothing of the kind")
        with pytest.raises(InvalidOptionError, match="cannot be read"):
            bare(str(tmp_path / name))
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(InvalidOptionError, match="cannot be read"):
        bare(str(tmp_path / "empty.csv"))


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    def without(path):
        raise ImportError("Unable to find a usable engine")

    monkeypatch.setattr(pd, "read_parquet", without)
    path = tmp_path / "prices.parquet"
    path.touch()
    with pytest.raises(InvalidOptionError, match=re.escape("openenv-gym-finrl[parquet]")):
        bare(str(path))


def test_too_much_data(monkeypatch):
    monkeypatch.setattr(reading, "MAX_ROWS", 5)
    for data in (THREE, pd.DataFrame(THREE)):
        with pytest.raises(InvalidOptionError, match="more than 5 rows"):
            bare(data)
    sparse = [{"date": DAYS[index], "tic": f"T{index}", "close": 1.0} for index in range(5)]
    with pytest.raises(InvalidOptionError, match="5 days of 5 stocks are too many"):
        bare(sparse, missing="drop")


def test_too_many_stocks():
    data = [{"date": day, "tic": f"T{n}", "close": 1.0} for day in DAYS[:2] for n in range(513)]
    with pytest.raises(InvalidOptionError, match="513 stocks"):
        bare(data)


# -- what is missing ------------------------------------------------------------------------------

# C comes on the second day, and lacks the fourth; A has no number on the third.
HOLES = [
    *({"date": day, "tic": "A", "close": price} for day, price in zip(DAYS, A[:5], strict=False)),
    *({"date": DAYS[day], "tic": "C", "close": 20.0 + day} for day in (1, 2, 4)),
]
HOLES[2] = {**HOLES[2], "close": None}


def test_days_without_a_price_are_left_out():
    assert closes(HOLES, missing="drop") == (
        (DAYS[1], DAYS[4]),
        ("A", "C"),
        [[10.5, 21.0], [10.0, 24.0]],
    )


def test_the_last_price_holds_where_there_is_none():
    """The first day is left out: nothing is filled from a later one."""
    assert closes(HOLES, missing="forward") == (
        tuple(DAYS[1:5]),
        ("A", "C"),
        [[10.5, 21.0], [10.5, 22.0], [10.8, 22.0], [10.0, 24.0]],
    )


def test_a_day_without_trade_has_one_price_and_no_volume():
    table = frame(days=4, stocks=2)
    table["vix"] = np.arange(8.0)
    found = read(table.drop(index=5), missing="forward", extra=["vix"])  # S2 on the third day
    close = found.close[1, 1]
    assert [found.columns[name][2, 1] for name in ("open", "high", "low", "close")] == [close] * 4
    assert (found.columns["volume"][2, 1], found.columns["vix"][2, 1]) == (0.0, 3.0)


def test_filling_never_looks_ahead():
    """Whatever happens later: days before stay as they are."""
    table = frame(days=30, stocks=2).drop(index=[7, 8, 21, 22])
    whole = read(table, missing="forward")
    for day in (5, 12, 25):
        known = read(table[table["date"] <= whole.dates[day - 1]], missing="forward")
        assert known.dates == whole.dates[:day]
        for name, column in known.columns.items():
            assert np.array_equal(column, whole.columns[name][:day])


def test_an_environment_on_data_with_holes():
    with pytest.raises(InvalidOptionError, match="row 3: column 'close' is empty|no row for"):
        FinRLEnvironment(HOLES, tech_indicator_list=[])
    environment = FinRLEnvironment(HOLES, missing="forward", tech_indicator_list=["close_3_sma"])
    assert environment.reset().date == DAYS[1]
