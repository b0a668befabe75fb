"""An episode as plain data, and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from finrl_env.server.portfolio import Portfolio
from openenv_gym.errors import InvalidOptionError


if TYPE_CHECKING:
    from finrl_env.server.market import Market

__all__ = ["Saved", "pack", "unpack"]

_VERSION = 1


@dataclass
class Saved:
    """Where an episode is.

    Attributes:
        begin: Day of the market on which it began.
        end: Day on which it will be cut off.
        portfolio: What is owned.
        values: What that was worth, on each day from `begin` to the present one.
        episode_id: Name of the episode.
        step_count: Steps taken in it.
        generator: The random generator; None where none was made yet.
        seed: Its seed.
    """

    begin: int
    end: int
    portfolio: Portfolio
    values: list[float]
    episode_id: str | None
    step_count: int
    generator: np.random.Generator | None
    seed: int | None

    @property
    def day(self) -> int:
        """The present day."""
        return self.begin + len(self.values) - 1


def pack(market: str, saved: Saved) -> dict[str, Any]:
    """Return plain data of which `unpack` makes the same again.

    Args:
        market: Digest of the market, which is not saved itself.
        saved: The episode.
    """
    generator = saved.generator
    return {
        "version": _VERSION,
        "market": market,
        "begin": saved.begin,
        "end": saved.end,
        "cash": saved.portfolio.cash,
        "shares": saved.portfolio.shares.tolist(),
        "values": list(saved.values),
        "episode_id": saved.episode_id,
        "step_count": saved.step_count,
        "np_random": None if generator is None else generator.bit_generator.state,
        "np_random_seed": saved.seed,
    }


def unpack(data: Any, market: Market, first: int, last: int) -> Saved:
    """Return what `pack` was given.

    Args:
        data: What it returned.
        market: The market, which has to be the same.
        first: First day that an episode may have.
        last: Last day.

    Raises:
        InvalidOptionError: It is no such data, or of another market.
    """
    try:
        if data["version"] != _VERSION:
            raise ValueError("it is of another version")
        if data["market"] != market.digest:
            raise ValueError("it is of a market with other prices")
        shares = np.array(data["shares"])
        if shares.shape != (len(market.tickers),) or shares.dtype != np.int64 or shares.min() < 0:
            raise ValueError("its shares are none")
        values = [float(value) for value in data["values"]]
        cash = float(data["cash"])
        if not values or not np.isfinite([cash, *values]).all() or cash < 0:
            raise ValueError("its amounts are none")
        found = Saved(
            begin=int(data["begin"]),
            end=int(data["end"]),
            portfolio=Portfolio(cash, shares),
            values=values,
            episode_id=None if data["episode_id"] is None else str(data["episode_id"]),
            step_count=int(data["step_count"]),
            generator=_generator(data["np_random"]),
            seed=None if data["np_random_seed"] is None else int(data["np_random_seed"]),
        )
        if not first <= found.begin <= found.day <= found.end <= last:
            raise ValueError("its days lie outside of the market's")
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise InvalidOptionError(
            f"This is not a saved state of this market: {error}.",
            field="saved",
            hint="Pass what save_state() of an environment with the same options returned.",
        ) from error
    return found


def _generator(state: Any) -> np.random.Generator | None:
    if state is None:
        return None
    known = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")
    if not isinstance(state, dict) or state.get("bit_generator") not in known:
        raise ValueError("its generator is unknown")
    generator: np.random.BitGenerator = getattr(np.random, state["bit_generator"])()
    generator.state = state
    return np.random.Generator(generator)
