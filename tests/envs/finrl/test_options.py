"""Options: what is said of those that are wrong, and what the README says of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import finrl_env
from finrl_env.options import FinRLOptions
from openenv_gym.errors import InvalidOptionError

from .markets import bare


README = (Path(finrl_env.__file__).parent / "README.md").read_text()


@pytest.mark.parametrize(
    ("options", "field", "said"),
    [
        ({"hmaxx": 3}, "hmaxx", "Did you mean 'hmax'?"),
        ({"stock_dim": 2}, "stock_dim", "Unknown option"),
        ({"hmax": 0}, "hmax", "greater than or equal to 1"),
        ({"hmax": 2.5}, "hmax", "integer"),
        ({"hmax": True}, "hmax", "integer"),
        ({"initial_amount": 0}, "initial_amount", "greater than 0"),
        ({"initial_amount": float("inf")}, "initial_amount", "finite"),
        ({"initial_amount": "1000"}, "initial_amount", "number"),
        ({"buy_cost_pct": 1.0}, "buy_cost_pct", "less than 1"),
        ({"sell_cost_pct": -0.1}, "sell_cost_pct", "greater than or equal to 0"),
        ({"buy_cost_pct": [0.1]}, "buy_cost_pct", "expected 2 numbers, one for each of A, B"),
        ({"num_stock_shares": [1, 2, 3]}, "num_stock_shares", "expected 2 numbers"),
        ({"num_stock_shares": []}, "num_stock_shares", "expected 2 numbers"),
        ({"num_stock_shares": [-1, 2]}, "num_stock_shares", "greater than or equal to 0"),
        ({"num_stock_shares": [0.5, 2]}, "num_stock_shares", "integer"),
        ({"reward_scaling": 0.0}, "reward_scaling", "greater than 0"),
        ({"reward_scaling": float("nan")}, "reward_scaling", "finite"),
        ({"turbulence_threshold": -1}, "turbulence_threshold", "greater than or equal to 0"),
        ({"turbulence_window": 1}, "turbulence_window", "greater than or equal to 2"),
        (
            {"turbulence_window": 20},
            "turbulence_window",
            "no effect without a turbulence_threshold",
        ),
        ({"risk_indicator_col": "vix"}, "risk_indicator_col", "no effect without"),
        (
            {"risk_indicator_col": "vix", "turbulence_window": 20, "turbulence_threshold": 1.0},
            "turbulence_window",
            "no effect with a risk_indicator_col",
        ),
        ({"tickers": ["A", "C"]}, "tickers", "the data have no 'C'. There are A, B."),
        ({"tickers": []}, "tickers", "at least 1"),
        ({"tickers": ["A", "A"]}, "tickers", "each name once"),
        ({"tickers": "A"}, "tickers", "list"),
        ({"start": "2020"}, "start", "expected a day such as '2010-01-04'"),
        ({"start": "2020-13-01"}, "start", "expected a day"),
        ({"end": 20200101}, "end", "string"),
        ({"start": "2020-01-10"}, "start", "fewer than two days"),
        ({"start": "2021-01-01"}, "start", "from 2020-01-01 to 2020-01-10"),
        ({"end": "2019-01-01"}, "end", "fewer than two days"),
        ({"start": "2020-01-05", "end": "2020-01-05"}, "start", "fewer than two days"),
        ({"missing": "fill"}, "missing", "'error', 'drop' or 'forward'"),
        ({"episode_length": 0}, "episode_length", "greater than or equal to 1"),
        ({"episode_length": 10}, "episode_length", "there are 9 steps from 2020-01-01"),
        ({"random_start": 1}, "random_start", "boolean"),
        ({"render_mode": "human"}, "render_mode", "'ansi' or 'rgb_array' or None"),
        ({"tech_indicator_list": "macd"}, "tech_indicator_list", "list"),
        ({"tech_indicator_list": ["macd", "macd"]}, "tech_indicator_list", "each name once"),
        ({"tech_indicator_list": ["__class__"]}, "tech_indicator_list", "no name of an indicator"),
        ({"tech_indicator_list": ["rsi_99999"]}, "tech_indicator_list", "no name of an indicator"),
        ({"tech_indicator_list": ["a" * 65]}, "tech_indicator_list", "no name of an indicator"),
        ({"tech_indicator_list": [f"rsi_{n}" for n in range(1, 66)]}, "tech_indicator_list", "64"),
        ({"data": {"generator": "arima"}}, "data.generator", "'gbm'"),
        ({"data": {"generator": "gbm", "day": 3}}, "data.day", "Did you mean 'days'?"),
        ({"data": {"generator": "gbm", "days": 1}}, "data.days", "greater than or equal to 2"),
        ({"data": {"generator": "gbm", "correlation": 1.0}}, "data.correlation", "less than 1"),
        ({"rubric": 3}, "rubric", "rubric"),
    ],
    ids=str,
)
def test_wrong_options(options, field, said):
    with pytest.raises(InvalidOptionError) as caught:
        bare(**options)
    assert caught.value.field == field
    assert said in str(caught.value)


def test_defaults_that_are_given_are_no_mistake():
    given = {name: field.default for name, field in FinRLOptions.model_fields.items()}
    bare(**{**given, "tech_indicator_list": []})


def test_the_readme_lists_all_options_with_their_defaults():
    section = README.partition("## Options")[2].partition("## Data")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| `(.*?)` \|", section, re.MULTILINE))
    assert rows.pop("data") == "'sample'"
    assert (rows.pop("rubric"), rows.pop("render_mode")) == ("None", "None")
    fields = FinRLOptions.model_fields.items()
    assert rows == {name: repr(field.default) for name, field in fields}


def test_defaults_are_not_shared():
    first = FinRLOptions()
    first.tech_indicator_list.append("atr")
    assert "atr" not in FinRLOptions().tech_indicator_list
