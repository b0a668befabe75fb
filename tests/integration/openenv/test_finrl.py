"""OpenEnv's client on our market."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integration.openenv.running import ours
from tests.integration.openenv.test_their_client import drive


pytestmark = [pytest.mark.openenv, pytest.mark.timeout(300)]


def test_an_episode(tmp_path: Path) -> None:
    prices = [10.0, 11.0, 12.0, 9.0]
    rows = [f"2020-01-0{day},A,{price}" for day, price in enumerate(prices, 1)]
    path = tmp_path / "prices.csv"
    path.write_text("\n".join(["date,tic,close", *rows]))
    options = {
        "data": str(path),
        "tech_indicator_list": json.dumps(["close_2_sma"]),
        "hmax": "10",
        "initial_amount": "1000",
        "buy_cost_pct": "0",
        "sell_cost_pct": "0.5",
        "reward_scaling": "1",
    }
    given = [part for name, value in options.items() for part in ("--option", f"{name}={value}")]
    with ours("finrl_env", *given) as url:
        answers = drive(
            url,
            [
                ["reset", {"seed": 1}],
                ["step", {"actions": [1.0]}],
                ["step", {"actions": [2.0]}],
                ["step", {"actions": [0]}],
                ["step", {"actions": [-0.5]}],
                ["state"],
                ["step", {"actions": [0.0]}],
                ["reset", {}],
            ],
        )
    first, bought, refused, held, sold, state, over, again = answers
    assert first["observation"] == {
        "state": [1000.0, 10.0, 0.0, 10.0],
        "portfolio_value": 1000.0,
        "date": "2020-01-01",
        "metadata": first["metadata"],
    }
    assert bought["observation"]["state"] == [900.0, 11.0, 10.0, 10.5]
    assert (bought["reward"], bought["done"]) == (10.0, False)
    assert bought["observation"]["portfolio_value"] == 1010.0
    assert "actions" in refused["text"]
    assert (held["reward"], held["observation"]["date"]) == (10.0, "2020-01-03")
    # Five shares at 12, half of it for the fee; the other five fall to 9.
    assert sold["observation"]["portfolio_value"] == 900.0 + 30.0 + 45.0
    assert (sold["reward"], sold["done"], sold["metadata"]["truncated"]) == (-45.0, True, True)
    assert (state["tickers"], state["shares"], state["step_count"]) == (["A"], [5], 3)
    assert "over" in over["text"]
    assert again["observation"]["state"] == first["observation"]["state"]


def test_the_sample_without_options() -> None:
    with ours("finrl_env") as url:
        first, then = drive(url, [["reset", {}], ["step", {"actions": [0.5, -0.3, 0.0]}]])
    assert len(first["observation"]["state"]) == 31
    assert first["observation"]["portfolio_value"] == 1_000_000.0
    assert then["observation"]["state"][4:7] == [50.0, 0.0, 0.0]
    assert then["observation"]["date"] == "2000-03-03"
