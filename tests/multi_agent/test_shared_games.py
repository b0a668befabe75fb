"""Several clients, each with one agent of a game."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest

from openenv_gym import errors
from openenv_gym.pettingzoo import EndReason, SeatEnv, join, new_ticket
from openenv_gym.server.multi_agent import seats
from openenv_gym.server.multi_agent.game import SharedGame
from tests.multi_agent.worlds import Cards, Sums
from tests.support.serving import serving
from tests.support.waiting import eventually


TICKET = "a ticket for tests"
_SHORT = {"turn_s": 0.3, "join_s": 0.3}


class WatchedGame(SharedGame):
    """A game whose limits are what a test says they are now, whatever its players agreed on."""

    made: ClassVar[list[WatchedGame]] = []

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.made.append(self)

    def limit(self, turn_s: float, join_s: float) -> None:
        with self._changed:
            self._turn_s, self._join_s = turn_s, join_s
            self._changed.notify_all()

    @property
    def awaits_others(self) -> bool:
        return bool(self._wishes)


@pytest.fixture
def games(monkeypatch: pytest.MonkeyPatch) -> list[WatchedGame]:
    """The games of servers of this process, in the order in which they begin."""
    monkeypatch.setattr(WatchedGame, "made", [])
    monkeypatch.setattr(seats, "SharedGame", WatchedGame)
    return WatchedGame.made


class Table:
    """Seats of a game, each used by a thread of its own."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.seats: list[SeatEnv] = []
        self._pool = ThreadPoolExecutor(8)

    def sit(self, agent: str, **options: Any) -> SeatEnv:
        options = {"game": "test", "ticket": TICKET, "turn_s": 60, "join_s": 60, **options}
        seat = join(self.url, agent=agent, **options)
        self.seats.append(seat)
        return seat

    def pair(self, **options: Any) -> list[SeatEnv]:
        return [self.sit(f"player_{number}", **options) for number in range(2)]

    def call(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Future[Any]:
        return self._pool.submit(function, *arguments, **options)

    def close(self) -> None:
        for seat in self.seats:
            seat.close()
        self._pool.shutdown()


@pytest.fixture
def cards() -> Iterator[Table]:
    with serving(Cards) as url:
        table = Table(url)
        yield table
        table.close()


@pytest.fixture
def sums() -> Iterator[Table]:
    with serving(Sums) as url:
        table = Table(url)
        yield table
        table.close()


def play(seat: SeatEnv, actions: list[int], seed: int | None = None) -> list[Any]:
    """Return what a player is told in an episode."""
    told: list[Any] = [seat.reset(seed=seed)]
    for action in actions:
        told.append(seat.step(action))
        if told[-1][2] or told[-1][3]:
            break
    return told


def test_a_game_in_turn(cards: Table) -> None:
    first, second = cards.pair()
    assert isinstance(first, gymnasium.Env)
    other = cards.call(play, second, [3, 9])
    told = play(first, [2, 4, 5])
    observation, info = told[0]
    assert observation in first.observation_space and info == {"hand": observation["hand"]}
    assert [each[0]["said"] for each in told] == [0, 3, 9]
    assert [each[1] for each in told[1:]] == [0.25, -1.0]
    assert told[2][2:4] == (True, False)
    theirs = other.result(60)
    assert [each[0]["said"] for each in theirs] == [2, 4, 9]
    # What it was given before its first turn comes with its first action.
    assert [each[1] for each in theirs[1:]] == [0.5, 1.0]
    with pytest.raises(errors.ResetNeededError):
        first.step(1)


def test_a_game_at_once(sums: Table) -> None:
    seats = [sums.sit(f"player_{number}", players=3, length=3) for number in range(3)]
    plans = [[1, 1, 1], [2, 0], [3, 3, 3]]
    calls = [sums.call(play, seat, plan) for seat, plan in zip(seats, plans, strict=True)]
    told = [call.result(60) for call in calls]
    assert [each[1] for each in told[0][1:]] == [1.0, 1.0, 1.0]
    assert [each[1] for each in told[1][1:]] == [2.0, 0.0]
    assert told[1][-1][2:4] == (True, False)
    assert [each[3] for each in told[2][1:]] == [False, False, True]
    assert told[2][-1][4] == {"total": 9}


def test_equal_seeds_of_all_give_equal_games(cards: Table) -> None:
    first, second = cards.pair()
    hands = []
    for ours, theirs in ((1, 2), (1, 2), (1, 3), (2, 1)):
        other = cards.call(second.reset, seed=theirs)
        mine = cards.call(first.reset, seed=ours)
        hand = mine.result(60)[0]["hand"]
        step = cards.call(first.step, 9)
        hands.append((hand, other.result(60)[0]["hand"]))
        cards.call(second.step, 0).result(60)  # brings the end
        step.result(60)
    assert hands[0] == hands[1]
    assert len(set(hands)) == 3


def test_who_does_not_know_the_other_seed_does_not_know_the_game(cards: Table) -> None:
    first, second = cards.pair()
    hands = set()
    for _ in range(2):
        other = cards.call(second.reset)
        hands.add(first.reset(seed=1)[0]["hand"])
        step = cards.call(first.step, 9)
        other.result(60)
        cards.call(second.step, 0).result(60)
        step.result(60)
    assert len(hands) == 2


def test_a_game_that_is_over_before_the_first_turn(cards: Table) -> None:
    first, second = cards.pair()
    other = cards.call(second.reset)
    first.reset()
    assert first.step(9)[1:4] == (1.0, True, False)
    observation, _ = other.result(60)
    assert observation["said"] == 9
    assert second.step(3)[1:4] == (-1.0, True, False)
    with pytest.raises(errors.ResetNeededError):
        second.step(3)


@pytest.mark.parametrize("how", ["left", "reset", "overrun", "failed"])
def test_who_breaks_off_ends_the_episode_for_the_others(
    cards: Table, games: list[WatchedGame], how: str
) -> None:
    first, second = cards.pair()
    other = cards.call(second.reset)
    first.reset()
    mine = cards.call(first.step, 1)
    seen = other.result(60)[0]
    theirs = cards.call(second.step, 2)
    assert mine.result(60)[0]["said"] == 2
    again: Any = None
    if how == "left":
        first.close()
    elif how == "reset":
        again = cards.call(first.reset)
    elif how == "failed":
        with pytest.raises(RuntimeError, match="raised RuntimeError") as caught:
            first.step(8)
        assert seen["hand"] not in str(caught.value)
        assert "look at these" not in str(caught.value)
    else:
        games[0].limit(turn_s=0.0, join_s=60.0)
    observation, _reward, terminated, truncated, info = theirs.result(60)
    assert (terminated, truncated) == (False, True)
    assert info == {"end_reason": how, "ended_by": ["player_0"]}
    assert isinstance(info["end_reason"], EndReason)
    assert observation == seen  # nothing new
    with pytest.raises(errors.ResetNeededError):
        second.step(1)
    if how == "left":
        cards.seats.remove(first)
        first = cards.sit("player_0")
    if how == "overrun":
        games[0].limit(turn_s=60.0, join_s=60.0)
        assert first.step(1)[3:] == (True, {"end_reason": "overrun", "ended_by": ["player_0"]})
    # And the next episode is an ordinary one.
    other = cards.call(play, second, [9])
    if again is None:
        again = cards.call(first.reset)
    again.result(60)
    assert first.step(3)[1:4] == (-1.0, True, False)
    assert other.result(60)[-1][1:4] == (1.25, True, False)


def test_others_that_do_not_come(cards: Table, games: list[WatchedGame]) -> None:
    first = cards.sit("player_0", **_SHORT)
    with pytest.raises(errors.OthersMissingError) as caught:
        first.reset()
    assert caught.value.data == {"missing": ["player_1"]}
    games[0].limit(turn_s=60.0, join_s=60.0)
    second = cards.sit("player_1", **_SHORT)
    other = cards.call(second.reset)
    first.reset()  # it may be asked again
    first.step(9)
    other.result(60)


def test_an_action_outside_the_space_changes_nothing(cards: Table) -> None:
    first, second = cards.pair()
    other = cards.call(play, second, [9])
    first.reset()
    for wrong in (10, -1, 1.5, None, "1"):
        with pytest.raises(errors.InvalidActionError):
            first.step(wrong)
    assert first.step(1)[1:4] == (-1.0, True, False)
    other.result(60)


def test_seats(cards: Table) -> None:
    cards.sit("player_0")
    for agent, text in (("player_0", "played already"), ("player_7", "no agent")):
        with pytest.raises(errors.InvalidOptionError, match=text) as caught:
            cards.sit(agent)
        assert caught.value.field == "agent"
    for options in ({"turn_s": 61}, {"join_s": 61}, {"hand_size": 9}):
        with pytest.raises(errors.InvalidOptionError, match="other options"):
            cards.sit("player_1", **options)
    for other in ({"ticket": new_ticket()}, {"game": "another"}):
        cards.sit("player_0", **other)  # which is another game
    cards.seats.pop(0).close()
    cards.sit("player_0", turn_s=5)  # the game had ended with its last player


def test_a_ticket_is_in_no_error(cards: Table) -> None:
    for ticket in ("short secret", "x" * 201):
        with pytest.raises(errors.InvalidOptionError) as caught:
            cards.sit("player_0", ticket=ticket)
        assert caught.value.field == "ticket" and ticket not in str(caught.value)
    assert len(new_ticket()) == 43 and new_ticket() != new_ticket()


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"game": ""}, "game"),
        ({"game": 5}, "game"),
        ({"turn_s": 0}, "turn_s"),
        ({"join_s": float("nan")}, "join_s"),
        ({"colour": 1}, "colour"),
    ],
)
def test_wrong_options(cards: Table, options: dict[str, Any], field: str) -> None:
    with pytest.raises(errors.InvalidOptionError) as caught:
        cards.sit("player_0", **options)
    assert caught.value.field == field


def test_it_takes_an_address() -> None:
    with pytest.raises(errors.InvalidOptionError, match="base_url"):
        join(game="g", agent="a", ticket=TICKET)


def test_places_for_players_are_bounded() -> None:
    with serving(Sums, max_threads=8) as url:
        table = Table(url)
        for number in range(4):
            table.sit(f"player_{number}", players=9)
        with pytest.raises(errors.CapacityError):
            table.sit("player_4", players=9)
        table.close()
        table.sit("player_5", players=9)
        table.close()


def test_nobody_waits_for_a_server_that_stops(games: list[WatchedGame]) -> None:
    with ThreadPoolExecutor(1) as pool:
        with serving(Cards) as url:
            seat = join(url, game="g", ticket=TICKET, agent="player_0", join_s=600)
            reset = pool.submit(seat.reset)
            assert eventually(lambda: games[0].awaits_others)
        seat.close()  # or it would look for the server for a while
        with pytest.raises(errors.OpenEnvGymError):
            reset.result(60)


def test_agents_that_come_and_go_are_refused() -> None:
    from tests.multi_agent.worlds import generated_parallel

    with serving(generated_parallel) as url, pytest.raises(errors.InvalidOptionError):
        Table(url).sit("type1_0")


def test_processes_of_a_server_do_not_share_games(tmp_path: Any) -> None:
    from openenv_gym.providers import ProcessProvider, ServerTarget

    running = ProcessProvider(workers=2).start(ServerTarget("connect4_env"))
    try:
        from openenv_gym.client import Connection

        wanted = {"api": "seat", "game": "g", "agent": "player_0", "ticket": TICKET}
        with pytest.raises(errors.InvalidOptionError, match="several processes"):
            Connection(running.address, {}, token=running.token, multi_agent=wanted)
    finally:
        running.stop()


def test_many_games_of_random_players_at_once(sums: Table) -> None:
    """No player waits for ever, whatever the others do, and whenever."""
    stop_s = time.monotonic() + 1.5
    played = itertools.count()
    enough = threading.Event()
    problems: list[BaseException] = []

    def live(number: int) -> None:
        generator = np.random.default_rng(number)
        try:
            while not (enough.is_set() and time.monotonic() > stop_s):
                options = {"turn_s": 0.2, "join_s": 0.2, "players": 3}
                seat = sums.sit(f"player_{number % 3}", game=f"g{number // 3}", **options)
                for _ in range(3):
                    try:
                        seat.reset()
                    except errors.OthersMissingError:
                        break
                    over = False
                    while not over:
                        if generator.random() < 0.05:
                            break
                        if generator.random() < 0.05:
                            time.sleep(0.25)
                        _, _, terminated, truncated, _ = seat.step(int(generator.integers(10)))
                        over = terminated or truncated
                    if over and next(played) == 9:
                        enough.set()
                seat.close()
        except BaseException as error:
            problems.append(error)
            enough.set()  # for the others

    threads = [threading.Thread(target=live, args=(number,)) for number in range(9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
