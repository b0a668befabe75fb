"""A game that several sessions play, one agent each: who waits for whom, and what ends it.

One lock guards everything. Whoever brings the action (or the reset) that was still missing runs
the environment; the others sleep until there is something for them. Nobody waits for ever: those
who wait are the ones that notice that somebody is late.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
import threading
import time
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

from openenv_gym import errors
from openenv_gym.server.multi_agent.moves import Moves, Outcome, moves_of
from openenv_gym.spaces.actions import check_hosted_action


__all__ = ["SharedGame"]

_log = logging.getLogger("openenv_gym.server")

LEFT, RESET, OVERRUN, FAILED = "left", "reset", "overrun", "failed"


class _End(NamedTuple):
    """Why an episode was broken off."""

    reason: str
    agents: list[Hashable]


class _Wish(NamedTuple):
    """What an agent that wants a new episode asked for."""

    seed: int | None
    options: dict[str, Any] | None


class SharedGame:
    """One environment and its players.

    Args:
        make: Makes the environment, when the first player comes.
        turn_s: How long an agent may take to act.
        join_s: How long a reset waits for the others.
    """

    def __init__(self, make: Callable[[], Any], turn_s: float, join_s: float) -> None:
        self._make = make
        self._turn_s = turn_s
        self._join_s = join_s
        self._changed = threading.Condition()
        self._moves: Moves | None = None
        self._possible: list[Hashable] = []
        self._seated: set[Hashable] = set()
        self._wishes: dict[Hashable, _Wish] = {}
        self._playing: set[Hashable] = set()  # those whose part of the episode goes on
        self._end: _End | None = None
        self._since_s = 0.0  # when the game moved
        self._stopped = False
        self._last: dict[Hashable, Any] = {}
        self._carried: dict[Hashable, float] = {}
        self._over_at_once: dict[Hashable, Outcome] = {}

    @property
    def env(self) -> Any:
        """The environment; there is one once somebody has sat down."""
        assert self._moves is not None
        return self._moves.env

    # -- seats --------------------------------------------------------------------------------

    def sit(self, agent: Hashable) -> None:
        """Take the seat of an agent.

        Raises:
            InvalidOptionError: There is no such agent, or somebody plays it.
            Exception: Whatever making the environment raises.
        """
        with self._changed:
            if self._moves is None:
                env = self._make()
                self._moves = moves_of(env)
                self._possible = list(getattr(env, "possible_agents", None) or ())
            if agent not in self._possible or agent in self._seated:
                what = "is played already" if agent in self._seated else "is no agent of it"
                raise errors.InvalidOptionError(
                    f"agent={agent!r:.60} {what}; the game has {self._possible!r:.200}.",
                    field="agent",
                )
            self._seated.add(agent)

    def leave(self, agent: Hashable) -> None:
        """Give a seat back; the episode, if one goes on, is over for the others."""
        with self._changed:
            self._seated.discard(agent)
            self._wishes.pop(agent, None)
            self._break_off(agent, LEFT)

    def close(self) -> None:
        """Close the environment; nobody may be seated."""
        with self._changed:
            if self._moves is not None:
                self._moves.env.close()

    def stop(self) -> None:
        """Let nobody wait any more: the server stops."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    # -- playing ------------------------------------------------------------------------------

    def reset(self, agent: Hashable, seed: int | None, options: dict[str, Any] | None) -> list[Any]:
        """Wait for a new episode, and in it for the agent's first turn.

        Returns:
            Observation and info.

        Raises:
            OthersMissingError: The others did not come in time.
            ServerDrainingError: The server stops.
            EnvironmentFailedError: The environment raised an exception.
        """
        with self._changed:
            self._break_off(agent, RESET)
            self._wishes[agent] = wish = _Wish(seed, options)
            end_s = time.monotonic() + self._join_s
            while True:
                self._begin_if_complete(agent)
                if agent not in self._playing:
                    self._wait_for_others(agent, end_s)
                    continue
                outcome = self._await(agent)
                if outcome is not None:
                    break
                # The episode was broken off before the agent had a turn: it waits for another.
                self._playing.discard(agent)
                self._wishes[agent] = wish
                end_s = time.monotonic() + self._join_s
            self._last[agent] = outcome.observation
            if outcome.over:
                self._over_at_once[agent] = outcome
            else:
                self._carried[agent] = outcome.reward
            return [outcome.observation, outcome.info]

    def step(self, agent: Hashable, action: Any) -> list[Any]:
        """Act, and wait for the agent's next turn, or the end of its part of the game.

        Returns:
            Observation, reward, terminated, truncated and info.

        Raises:
            ResetNeededError: Its part of the game is over.
            InvalidActionError: The action is not in the action space; nothing has changed.
            EnvironmentFailedError: The environment raised an exception.
        """
        with self._changed:
            if agent not in self._playing:
                raise errors.ResetNeededError(
                    "No episode goes on for this agent.", hint="Call reset() first."
                )
            outcome = self._over_at_once.pop(agent, None)
            if outcome is None and self._end is None:
                check_hosted_action(self.env.action_space(agent), action)
                self._act(agent, action)
                outcome = self._await(agent)
            if outcome is None:
                outcome = self._cut(agent)
            outcome.reward += self._carried.pop(agent, 0.0)
            self._last[agent] = outcome.observation
            if outcome.over:
                self._playing.discard(agent)
            return outcome.to_wire()

    # -- with the lock held -------------------------------------------------------------------

    def _act(self, agent: Hashable, action: Any) -> None:
        assert self._moves is not None
        try:
            moved = self._moves.act(agent, action)
        except Exception as error:
            self._break_off(agent, FAILED)
            raise _without_text(error) from None
        if moved:
            self._since_s = time.monotonic()
            self._changed.notify_all()

    def _await(self, agent: Hashable) -> Outcome | None:
        """Wait until there is something for an agent; None where the episode was broken off."""
        assert self._moves is not None
        while True:
            outcome = self._moves.outcomes.pop(agent, None)
            if outcome is not None:
                return outcome
            if self._end is not None:
                return None
            left_s = self._since_s + self._turn_s - time.monotonic()
            if left_s <= 0:
                self._end = _End(OVERRUN, self._moves.awaited)
                self._changed.notify_all()
            else:
                self._wait(left_s)

    def _cut(self, agent: Hashable) -> Outcome:
        """Return the end of an episode that was broken off."""
        assert self._end is not None and self._moves is not None
        info = {"end_reason": self._end.reason, "ended_by": list(self._end.agents)}
        reward = self._moves.reward_so_far(agent)
        return Outcome(self._last.get(agent), reward, False, True, info)

    def _break_off(self, agent: Hashable, reason: str) -> None:
        """End an agent's part of the game, and with it the episode, unless it was over."""
        if agent not in self._playing:
            self._changed.notify_all()
            return
        assert self._moves is not None
        self._playing.discard(agent)
        untold = self._moves.outcomes.pop(agent, None) or self._over_at_once.pop(agent, None)
        self._carried.pop(agent, None)
        if self._end is None and not (untold is not None and untold.over):
            self._end = _End(reason, [agent])
        self._changed.notify_all()

    def _wait_for_others(self, agent: Hashable, end_s: float) -> None:
        left_s = end_s - time.monotonic()
        if left_s <= 0:
            del self._wishes[agent]
            missing = [each for each in self._possible if each not in {*self._wishes, agent}]
            raise errors.OthersMissingError(
                f"Nobody asked for a new episode as {missing!r:.200} within {self._join_s:g} s.",
                hint="Call reset() again, or see that all players name the same game and ticket.",
                data={"missing": missing},
            )
        self._wait(left_s)

    def _wait(self, timeout_s: float) -> None:
        if self._stopped:
            raise errors.ServerDrainingError("The server stops, and the game with it.")
        self._changed.wait(timeout_s)

    def _begin_if_complete(self, agent: Hashable) -> None:
        """Begin an episode where all want one."""
        if any(each not in self._wishes for each in self._possible):
            return
        assert self._moves is not None
        wishes = [self._wishes[each] for each in self._possible]
        options = next((wish.options for wish in wishes if wish.options is not None), None)
        try:
            self._moves.begin(_common_seed([wish.seed for wish in wishes]), options)
        except errors.InvalidOptionError:
            del self._wishes[agent]
            raise
        except Exception as error:
            del self._wishes[agent]
            raise _without_text(error) from None
        self._wishes = {}
        self._playing = set(self._possible)
        self._end = None
        self._last, self._carried, self._over_at_once = {}, {}, {}
        self._since_s = time.monotonic()
        self._changed.notify_all()


def _common_seed(seeds: list[int | None]) -> int | None:
    """Return a seed that no player can know who does not know those of all.

    None where nobody gave one. Where somebody gave none, chance stands for it: the others could
    else work out what is dealt.
    """
    if all(seed is None for seed in seeds):
        return None
    parts = [secrets.token_hex() if seed is None else str(seed) for seed in seeds]
    digest = hashlib.sha256(" ".join(parts).encode()).digest()
    return int.from_bytes(digest[:4], "little") & 0x7FFF_FFFF  # what generators of all kinds take


def _without_text(error: Exception) -> errors.EnvironmentFailedError:
    """Return an exception as a player may see it: its text may tell what others hold."""
    _log.error("A shared game failed", exc_info=error)
    name = type(error).__name__
    return errors.EnvironmentFailedError(f"The game raised {name}.", data={"type": name})
