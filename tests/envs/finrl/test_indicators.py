"""Indicators and turbulence: what they are, and that they know no later day."""

from __future__ import annotations

import numpy as np
import pytest

from finrl_env.options import INDICATORS
from finrl_env.server.finrl_environment import FinRLEnvironment
from finrl_env.server.turbulence import turbulence_index
from openenv_gym.errors import InvalidOptionError

from .markets import DAYS, A, B, act, bare, frame, numbers, rows


def observed(data, **options) -> dict[str, np.ndarray]:
    """Return the indicators that an agent sees, by date."""
    environment = FinRLEnvironment(data, **options)
    seen = environment.reset()
    stocks = environment.state.stock_dim
    found = {seen.date: np.asarray(seen.state)[1 + 2 * stocks :]}
    while not seen.done:
        seen = act(environment, *[0.0] * stocks)
        found[seen.date] = np.asarray(seen.state)[1 + 2 * stocks :]
    return found


def test_an_indicator_does_not_change_when_later_days_do():
    table = frame(days=150)
    whole = observed(table)
    assert next(iter(whole)) == str(table["date"].unique()[1])[:10]
    days = sorted(table["date"].unique())
    for count in (40, 90, 149):
        known = observed(table[table["date"] < days[count]])
        other = table.copy()
        later = other["date"] >= days[count]
        columns = ["open", "high", "low", "close", "volume"]
        other.loc[later, columns] = other.loc[later, columns].mul(3).astype(other[columns].dtypes)
        changed = observed(other)
        for date, values in known.items():
            assert np.array_equal(values, whole[date]) and np.array_equal(values, changed[date])
        last = sorted(whole)[-1]
        assert not np.array_equal(whole[last], changed[last])


def test_moving_averages_by_hand():
    names = ["close_3_sma", "close_2_ema"]
    found = observed(rows(A=A, B=B), tech_indicator_list=names)
    # Third day: (10 + 10.5 + 11) / 3 and (50 + 49 + 51) / 3; the first indicator of both stocks,
    # then the second: weights 1, 1/3 and 1/9 of the last days, divided by their sum.
    ema = [(11 + 10.5 / 3 + 10 / 9) / (13 / 9), (51 + 49 / 3 + 50 / 9) / (13 / 9)]
    assert found[DAYS[2]] == pytest.approx([10.5, 50.0, *ema], rel=1e-6)


def test_the_default_indicators_are_finrls():
    environment = FinRLEnvironment("generated")
    assert environment.state.tech_indicators == list(INDICATORS)
    assert environment.state.state_space == 1 + 2 * 3 + 8 * 3 == len(numbers(environment.reset()))


@pytest.mark.parametrize("name", ["close_2_s", "close_1_r", "close_3_d"])
def test_what_looks_ahead_is_refused(name):
    with pytest.raises(InvalidOptionError, match=f"'{name}': it looks ahead") as caught:
        bare(frame(), tech_indicator_list=["macd", name])
    assert caught.value.field == "tech_indicator_list"


@pytest.mark.parametrize("name", ["close_-2_s", "kdjk", "atr_14", "volume_5_sma", "close", "wr_6"])
def test_other_indicators_of_stockstats(name):
    environment = bare(frame(), tech_indicator_list=[name])
    assert np.isfinite(numbers(environment.reset())).all()


@pytest.mark.parametrize("name", ["rsi_0", "close_5_nothing", "nothing", "sma", "vix"])
def test_unknown_indicators(name):
    with pytest.raises(InvalidOptionError, match=f"'{name}': stockstats cannot compute it"):
        bare(frame(), tech_indicator_list=[name])


def test_an_indicator_without_its_column():
    with pytest.raises(InvalidOptionError, match="'cci_30'.*high"):
        bare(rows(A=A), tech_indicator_list=["cci_30"])


def test_columns_of_the_data_are_indicators_too():
    data = [{**row, "vix": 20.0 + index, "note": "x"} for index, row in enumerate(rows(A=A, B=B))]
    first = bare(data, tech_indicator_list=["vix_2_sma", "vix"]).reset()
    assert numbers(first)[5:] == [20.0, 21.0, 20.0, 21.0]
    assert numbers(bare(data, tech_indicator_list=["vix_-1_d"]).reset())[5:] == [0.0, 0.0]


def test_what_is_not_defined_keeps_its_value():
    """A price that stands still has no cci_5 (0 / 0): it keeps the one of the days before."""
    prices = [1.0, 2.0, 3.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0]
    data = [{**row, "high": row["close"], "low": row["close"]} for row in rows(A=prices)]
    found = observed(data, tech_indicator_list=["cci_3"])
    assert all(np.isfinite(values).all() for values in found.values())
    assert found[DAYS[8]] == found[DAYS[9]]


def test_an_indicator_that_is_never_defined_is_refused():
    data = [{**row, "vix": np.nan} for row in rows(A=A)]
    with pytest.raises(InvalidOptionError, match="column 'vix' is empty"):
        bare(data, tech_indicator_list=["vix"])
    with pytest.raises(InvalidOptionError, match="'vix_2_z' is not defined on any of the 10 days"):
        bare([{**row, "vix": 1.0} for row in rows(A=A)], tech_indicator_list=["macd", "vix_2_z"])
    with pytest.raises(InvalidOptionError, match="'cci_30' is not defined on any of the 20 days"):
        FinRLEnvironment(frame(days=20))


def test_too_many_indicators(monkeypatch):
    monkeypatch.setattr("finrl_env.server.indicators.MAX_VALUES", 39)
    with pytest.raises(InvalidOptionError, match="2 indicators of 2 stocks on 10 days"):
        bare(tech_indicator_list=["macd", "rsi_6"])


# -- turbulence -----------------------------------------------------------------------------------


def test_turbulence_is_the_squared_mahalanobis_distance():
    generator = np.random.default_rng(0)
    close = 100 * np.exp(np.cumsum(generator.normal(0, 0.01, (80, 3)), axis=0))
    found = turbulence_index(close, 20)
    returns = close[1:] / close[:-1] - 1
    assert (found[:21] == 0).all() and (found[21:] > 0).all()
    for day in (21, 50, 79):
        past, present = returns[day - 21 : day - 1], returns[day - 1]
        unusual = present - past.mean(axis=0)
        expected = unusual @ np.linalg.solve(np.cov(past.T), unusual)
        assert found[day] == pytest.approx(expected, rel=1e-9)


def test_turbulence_of_one_stock_by_hand():
    # Returns 0.1, -0.1, 0.1, -0.1: mean 0 and variance 0.04 / 3; then 0.2.
    close = np.cumprod([[1.0], [1.1], [0.9], [1.1], [0.9], [1.2]], axis=0)
    found = turbulence_index(close, 4)
    assert found.tolist() == pytest.approx([0, 0, 0, 0, 0, 0.04 * 3 / 0.04])


def test_turbulence_knows_no_later_day():
    close = frame(days=60)["close"].to_numpy().reshape(60, 2)
    whole = turbulence_index(close, 15)
    assert np.array_equal(turbulence_index(close[:40], 15), whole[:40])


def test_turbulence_of_prices_that_stand_still_or_move_together():
    moving = np.linspace(1.0, 2.0, 40) + np.sin(np.arange(40.0)) / 10
    for close in (np.ones((40, 2)), np.stack([moving, 2 * moving], axis=1)):
        found = turbulence_index(close, 10)
        assert np.isfinite(found).all() and (found >= 0).all()


def test_a_risk_column_has_to_be_there():
    with pytest.raises(InvalidOptionError, match="no such column") as caught:
        bare(risk_indicator_col="vix", turbulence_threshold=1.0)
    assert caught.value.field == "risk_indicator_col"
