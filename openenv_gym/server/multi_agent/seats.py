"""The shared games of a server, and one agent's seat in one of them."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from types import MethodType
from typing import Any, NoReturn

from openenv_gym import errors
from openenv_gym.server.multi_agent.game import SharedGame
from openenv_gym.server.multi_agent.hosting import as_api
from openenv_gym.server.multi_agent.hosts import NO_SCHEMAS, describe_agents, read_reset
from openenv_gym.server.multi_agent.options import SEAT, SeatOptions
from openenv_gym.server.operations import find_operation, run_operation


__all__ = ["Games", "SeatHost"]


@dataclass
class _Entry:
    """A game, and what its players must agree on."""

    game: SharedGame
    terms: tuple[dict[str, Any], float, float]
    seats: int = 0


class Games:
    """Finds the game that players mean.

    A name and a ticket together name a game, so that whoever does not know the ticket neither
    finds a game nor learns that there is one, and cannot take its name.

    Args:
        max_seats: Seats that may be taken at once. One that waits for the others keeps a thread,
            so there must be more threads than seats.
    """

    def __init__(self, max_seats: int) -> None:
        self._max_seats = max_seats
        self._seats = 0
        self._lock = threading.Lock()
        self._games: dict[bytes, _Entry] = {}

    def sit(
        self, seat: SeatOptions, options: dict[str, Any], make: Callable[[], Any]
    ) -> tuple[SharedGame, Callable[[], None]]:
        """Take a seat.

        Args:
            seat: Which one.
            options: What the environment is made with.
            make: Makes it.

        Returns:
            The game, and what gives the seat back.

        Raises:
            CapacityError: There are too many players.
            InvalidOptionError: The seat cannot be had.
            Exception: Whatever `make` raises.
        """
        # A digest: comparing it tells nothing about the ticket.
        key = hashlib.sha256(f"{seat.game}\0{seat.ticket}".encode()).digest()
        terms = (options, seat.turn_s, seat.join_s)
        with self._lock:
            if self._seats >= self._max_seats:
                raise errors.CapacityError(
                    f"{self._seats} seats of shared games are taken, which is all.",
                    hint="Start the server with a higher --max-threads.",
                    data={"sessions": self._seats, "capacity": self._max_seats},
                )
            entry = self._games.get(key)
            if entry is None:
                entry = _Entry(SharedGame(make, seat.turn_s, seat.join_s), terms)
                self._games[key] = entry
            elif entry.terms != terms:
                raise errors.InvalidOptionError(
                    "The game was begun with other options, turn_s or join_s.",
                    field="multi_agent",
                    hint="All players of a game give the same.",
                )
            entry.seats += 1
            self._seats += 1
        try:
            entry.game.sit(seat.agent)
        except BaseException:
            self._forget(key, entry)
            raise

        def leave() -> None:
            entry.game.leave(seat.agent)
            self._forget(key, entry)

        return entry.game, leave

    def stop(self) -> None:
        """Let no player wait any more: the server stops."""
        with self._lock:
            entries = list(self._games.values())
        for entry in entries:
            entry.game.stop()

    def _forget(self, key: bytes, entry: _Entry) -> None:
        """Count a seat as free, and close the game with the last one."""
        with self._lock:
            self._seats -= 1
            entry.seats -= 1
            if entry.seats:
                return
            del self._games[key]
        entry.game.close()


class SeatHost:
    """What a session holds that plays one agent of a shared game.

    Args:
        games: The games of the server.
        seat: Which seat.
        options: What the environment is made with.
        make: Makes it, in the form that is named.

    Raises:
        OpenEnvGymError: The seat cannot be had.
        Exception: Whatever `make` raises.
    """

    def __init__(
        self,
        games: Games,
        seat: SeatOptions,
        options: dict[str, Any],
        make: Callable[[str], Any],
    ) -> None:
        self._agent: Hashable = seat.agent
        self._game, self._leave = games.sit(seat, options, lambda: as_api(make(SEAT), SEAT))

    def describe(self) -> dict[str, Any]:
        """Return what WELCOME says: of this agent alone.

        Raises:
            SpaceError: A space cannot be carried.
        """
        return describe_agents(self._game.env, SEAT, [self._agent])

    def schemas(self) -> dict[str, Any]:
        """Return JSON Schemas of action, observation and state: there are none."""
        return NO_SCHEMAS

    def execute(self, op: str, args: list[Any], rng: Any = None) -> tuple[Any, int]:
        """Run one operation; see `EnvironmentHost.execute`."""
        return run_operation(MethodType(find_operation(_OPERATIONS, op), self), op, args)

    def extras(self, op: str) -> dict[str, Any]:
        """Return nothing."""
        return {}

    def close(self) -> None:
        """Leave the game."""
        self._leave()

    def _reset(self, seed: Any = None, options: Any = None) -> list[Any]:
        return self._game.reset(self._agent, **read_reset(seed, options))

    def _step(self, action: Any) -> list[Any]:
        return self._game.step(self._agent, action)

    def _ping(self) -> None:
        """Do nothing."""

    def _withheld(self, *args: Any) -> NoReturn:
        raise errors.ForbiddenOperationError(
            "A player of a shared game is told what its agent observes, and nothing else.",
            field="op",
        )


_OPERATIONS: dict[str, Callable[..., Any]] = {
    "reset": SeatHost._reset,
    "step": SeatHost._step,
    "ping": SeatHost._ping,
    **dict.fromkeys(("render", "state", "get", "set", "call", "look"), SeatHost._withheld),
}
