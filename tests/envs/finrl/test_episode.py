"""Episodes: what is traded, what it costs, what it earns, and when it ends."""

from __future__ import annotations

import numpy as np
import pytest
from bokeh_sampledata import stocks
from gymnasium.utils.env_checker import check_env, data_equivalence, env_render_passive_checker

from finrl_env.server.finrl_environment import FinRLEnvironment
from finrl_env.server.portfolio import Portfolio
from openenv_gym.errors import InvalidActionError, ResetNeededError

from .markets import DAYS, A, B, act, bare, frame, make, numbers, play, random_actions, rows


# Computed by hand, with 1000.00 in cash, at most 20 shares a step, and fees of 1 % (buying) and
# 0.5 % (selling). Of each step: shares to trade of A and B, shares that are traded, fees, cash
# afterwards, shares afterwards, and value at the next day's close.
BY_HAND = [
    # 10 A for 100 + 1; 5 B for 250 + 2.50
    ((10, 5), (10, 5), 3.50, 646.50, (10, 5), 996.50),
    # 10 B for 490 + 4.90
    ((0, 10), (0, 10), 4.90, 151.60, (10, 15), 1026.60),
    # 3 B bring 153 - 0.765; 10 A for 110 + 1.10
    ((10, -3), (10, -3), 1.865, 192.735, (20, 12), 1032.735),
    # 20 A bring 216 - 1.08, which makes 407.655; that buys 7 of 20 B, for 364 + 3.64
    ((-20, 20), (-20, 7), 4.72, 40.015, (0, 19), 952.015),
    ((0, 0), (0, 0), 0.0, 40.015, (0, 19), 942.515),
    # 40.015 buy 4 of 20 A, for 38 + 0.38, and then no B
    ((20, 20), (4, 0), 0.38, 1.635, (4, 19), 934.235),
    # there are 4 A to sell, not 5: 39.60 - 0.198
    ((-5, 0), (-4, 0), 0.198, 41.037, (0, 19), 991.037),
    # 19 B bring 950 - 4.75
    ((0, -20), (0, -19), 4.75, 986.287, (0, 0), 986.287),
    # 20 A for 224 + 2.24; there is no B to sell
    ((20, -1), (20, 0), 2.24, 760.047, (20, 0), 980.047),
]


def test_ten_days_by_hand():
    environment = bare(initial_amount=1000.0, hmax=20, buy_cost_pct=0.01, sell_cost_pct=0.005)
    first = environment.reset(seed=0)
    assert numbers(first) == [1000.0, 10.0, 50.0, 0.0, 0.0]
    assert (first.portfolio_value, first.date, first.reward) == (1000.0, DAYS[0], None)
    value = 1000.0
    for step, (wanted, traded, cost, cash, shares, after) in enumerate(BY_HAND, 1):
        seen = act(environment, *(count / 20 for count in wanted))
        info = seen.metadata
        assert (info["traded"].tolist(), info["shares"].tolist()) == ([*traded], [*shares])
        cents = [info["cost"], info["cash"], seen.portfolio_value, seen.reward]
        assert cents == pytest.approx([cost, cash, after, after - value], abs=1e-9)
        assert numbers(seen) == pytest.approx([cash, A[step], B[step], *shares], rel=1e-6)
        assert (seen.date, seen.done, seen.truncated) == (DAYS[step], step == 9, step == 9)
        assert not seen.terminated
        value = after
    # 500.00 in each stock on the first day, in parts of shares: 50 A and 10 B.
    assert seen.metadata["buy_and_hold"] == pytest.approx(50 * 11.00 + 10 * 52.00, abs=1e-9)
    with pytest.raises(ResetNeededError):
        act(environment, 0.0, 0.0)


def test_buy_and_hold_equals_the_data():
    """Buy on the first day, wait 13 years: what a file of the prices says it is worth."""
    environment = FinRLEnvironment(
        tech_indicator_list=[], hmax=10**6, buy_cost_pct=0.0, initial_amount=3_000_000.0
    )
    first = environment.reset(seed=0)
    histories = [getattr(stocks, ticker)["adj_close"] for ticker in ("AAPL", "IBM", "MSFT")]
    assert first.date == stocks.AAPL["date"][0]
    counts = [int(1_000_000 // history[0]) for history in histories]
    seen = act(environment, *(count / 10**6 for count in counts))
    assert seen.metadata["traded"].tolist() == counts
    cash = 3_000_000.0 - sum(
        count * history[0] for count, history in zip(counts, histories, strict=True)
    )
    for day in range(1, len(histories[0])):
        worth = cash + sum(
            count * history[day] for count, history in zip(counts, histories, strict=True)
        )
        assert seen.portfolio_value == pytest.approx(worth, abs=0.005)
        held = sum(1_000_000 / history[0] * history[day] for history in histories)
        assert seen.metadata["buy_and_hold"] == pytest.approx(held, abs=0.005)
        assert seen.date == stocks.AAPL["date"][day]
        if day < len(histories[0]) - 1:
            assert not seen.done
            seen = act(environment, 0.0, 0.0, 0.0)
    assert (seen.done, seen.truncated, seen.date) == (True, True, "2013-03-01")


def test_rewards_add_up_to_what_was_gained():
    env = make(reward_scaling=0.5)
    env.reset(seed=0)
    results = play(env, random_actions(env, 400))
    gained = results[-1][4]["portfolio_value"] - 1_000_000.0
    assert sum(result[1] for result in results) == pytest.approx(0.5 * gained)


def test_check_env():
    with pytest.warns(UserWarning, match="infinity"):  # which is what the README says of the Box
        check_env(make(), skip_render_check=True)


def test_observations_lie_in_their_space_to_the_end():
    env = make(data={"generator": "gbm", "days": 300, "volatility": 3.0}, hmax=10**6)
    observation, info = env.reset(seed=0)
    for action in random_actions(env, 298):
        assert observation in env.observation_space and observation.dtype == np.float32
        assert np.isfinite(observation).all()
        assert info["cash"] >= 0 and (info["shares"] >= 0).all() and info["portfolio_value"] > 0
        observation, reward, terminated, truncated, info = env.step(action)
        assert type(reward) is float and not terminated
    assert truncated and observation in env.observation_space


def test_equal_seeds_give_equal_episodes():
    first, second, other = (make(random_start=True, episode_length=20) for _ in range(3))
    actions = random_actions(first, 100)
    starts = [env.reset(seed=seed) for env, seed in ((first, 3), (second, 3), (other, 4))]
    assert data_equivalence(starts[0], starts[1], exact=True)
    assert starts[0][1]["date"] != starts[2][1]["date"]
    played = [play(env, actions) for env in (first, second)]
    assert data_equivalence(*played, exact=True)
    # A reset without a seed goes on with the generator.
    assert len({result[-1]["date"] for result in played[0] if len(result) == 2}) == 5


def test_a_random_start_leaves_room_for_the_episode():
    environment = bare(random_start=True, episode_length=3)
    first = set()
    for seed in range(60):
        first.add(environment.reset(seed=seed).date)
        assert [act(environment, 0, 0).truncated for _ in range(3)] == [False, False, True]
    assert first == set(DAYS[:7])
    endless = bare(random_start=True)
    assert {endless.reset(seed=seed).date for seed in range(80)} == set(DAYS[:9])


def test_an_episode_can_be_shorter_than_the_data():
    environment = bare(episode_length=2, start="2020-01-03", end="2020-01-08")
    for _ in range(2):
        assert environment.reset().date == "2020-01-03"
        assert [act(environment, 0, 0).done for _ in range(2)] == [False, True]
    environment = bare(start="2019-05-05", end="2020-01-02")
    assert environment.reset().date == "2020-01-01"
    assert act(environment, 0, 0).truncated


def test_whole_shares_are_rounded():
    environment = bare(hmax=100)
    environment.reset()
    for percent in range(1, 10):  # 0.53 * 100 is 52.999998 in float32
        seen = act(environment, (50 + percent) / 100, -0.004)
        assert seen.metadata["traded"].tolist() == [50 + percent, 0]


def test_the_largest_order_is_carried_out_first():
    environment = bare(initial_amount=60.0, hmax=10)
    environment.reset()
    assert act(environment, 0.5, 0.6).metadata["traded"].tolist() == [1, 1]  # B, then A
    environment.reset()
    assert act(environment, 0.6, 0.5).metadata["traded"].tolist() == [6, 0]


def test_the_cash_always_suffices():
    """Prices, fees and cash of which products round up, down and to the very cash."""
    generator = np.random.default_rng(0)
    for _ in range(5000):
        price, fee = generator.uniform(0.01, 3.0, 1), generator.uniform(0.0, 0.1, 1)
        whole = float(price[0] * (1 + fee[0]))
        portfolio = Portfolio(whole * int(generator.integers(1, 1000)), np.zeros(1, np.int64))
        portfolio.trade(np.array([10**6]), price, fee, fee)
        assert 0 <= portfolio.cash < whole * 1.000001


def test_fees_and_shares_of_each_stock():
    environment = bare(
        initial_amount=1000.0,
        hmax=10,
        num_stock_shares=[7, 4],
        buy_cost_pct=[0.1, 0.2],
        sell_cost_pct=(0.0, 0.5),
    )
    first = environment.reset()
    assert numbers(first) == [1000.0, 10.0, 50.0, 7.0, 4.0]
    assert first.portfolio_value == 1000.0 + 7 * 10.0 + 4 * 50.0
    seen = act(environment, 0.1, -0.2)
    assert seen.metadata["cost"] == pytest.approx(0.1 * 10.0 + 0.5 * 2 * 50.0)
    assert environment.reset().metadata["shares"].tolist() == [7, 4]


def test_the_shares_in_an_old_info_do_not_change():
    environment = bare(hmax=10)
    environment.reset()
    info = act(environment, 1.0, 0.0).metadata
    act(environment, 1.0, 1.0)
    assert (info["shares"].tolist(), info["traded"].tolist()) == ([10, 0], [10, 0])


@pytest.mark.parametrize(
    "actions",
    [[0.0], [0.0, 0.0, 0.0], [0.0, 1.5], [-1.1, 0.0], [float("nan"), 0.0], [[0.0, 0.0]]],
    ids=str,
)
def test_wrong_actions(actions):
    environment = bare()
    environment.reset()
    with pytest.raises((InvalidActionError, ValueError), match="actions"):
        environment.step(environment.action_model(actions=actions))
    with pytest.raises(InvalidActionError, match="expected 2 numbers from -1 to 1"):
        environment.step(environment.action_model.model_construct(actions=actions))
    assert environment.state.step_count == 0


def test_a_step_needs_a_reset():
    with pytest.raises(ResetNeededError):
        act(bare(), 0.0, 0.0)


def test_turbulence_sells_everything_and_buys_nothing():
    environment = bare(frame(40), turbulence_threshold=7.0, turbulence_window=10, hmax=50)
    seen = environment.reset()
    calm = stormy = 0
    for _ in range(39):
        turbulent = seen.metadata["turbulence"] >= 7.0
        seen = act(environment, 1.0, 0.5)
        if turbulent:
            assert seen.metadata["shares"].tolist() == [0, 0]
            stormy += 1
        else:
            assert seen.metadata["traded"].tolist() == [50, 25]
            calm += 1
    assert calm > 10 and stormy > 1


def test_turbulence_counts_from_the_first_day():
    """A column of the data takes the place of the index; it is high on the first day alone."""
    data = rows(A=A, B=B)
    for row in data:
        row["vix"] = 50.0 if row["date"] == DAYS[0] else 10.0
    environment = bare(data, risk_indicator_col="vix", turbulence_threshold=50.0, hmax=10)
    assert environment.reset().metadata["turbulence"] == 50.0
    assert act(environment, 1.0, 1.0).metadata["traded"].tolist() == [0, 0]
    assert act(environment, 1.0, 1.0).metadata["traded"].tolist() == [10, 10]
    assert "turbulence" not in bare().reset().metadata


def test_nothing_is_written(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    env = make(data="generated", render_mode="rgb_array")
    env.reset(seed=0)
    play(env, random_actions(env, 600))
    env.render()
    env.close()
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")


def test_a_chart():
    env = make(data="generated", render_mode="rgb_array")
    env.reset(seed=0)
    empty = env.render()
    assert (empty.shape, empty.dtype) == ((360, 640, 3), np.uint8)
    env_render_passive_checker(env)
    before = empty
    for _ in range(3):
        for _ in range(100):
            env.step(np.ones(3, np.float32))
        picture = env.render()
        assert (picture != before).any()
        before = picture
    # The curve of the portfolio is drawn in blue, that of buy-and-hold in orange.
    for colour in ((31, 119, 180), (255, 127, 14)):
        assert (picture == colour).all(axis=-1)[40:328].sum() > 200
    other = make(data="generated", render_mode="rgb_array")
    other.reset(seed=0)
    assert (other.render() == empty).all()
    assert make(data="generated").render() is None


def test_a_line_of_text():
    environment = bare(initial_amount=1000.0, hmax=20, render_mode="ansi")
    assert environment.render() is None
    environment.reset()
    act(environment, 0.5, 0.25)
    assert environment.render() == (
        "2020-01-02  value 1,000.00  buy and hold 1,015.00  cash 650.00  "
        "A 10 at 10.50  B 5 at 49.00"
    )


def test_the_state():
    environment = FinRLEnvironment(tech_indicator_list=["macd"], turbulence_threshold=40)
    before = environment.state
    assert (before.stock_dim, before.action_space, before.state_space) == (3, 3, 10)
    assert before.tickers == ["AAPL", "IBM", "MSFT"] and before.tech_indicators == ["macd"]
    assert (before.date, before.portfolio_value, before.turbulence_threshold) == ("", 0.0, 40.0)
    environment.reset()
    act(environment, 1.0, 0.0, 0.0)
    after = environment.state
    assert (after.shares, after.step_count, after.date) == ([100, 0, 0], 1, "2000-03-02")
    assert (after.first_date, after.last_date) == ("2000-03-01", "2013-03-01")
    assert after.cash + 100 * stocks.AAPL["adj_close"][1] == pytest.approx(after.portfolio_value)
