"""What one player must not see is in no byte that is sent to it."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest

from openenv_gym import errors
from openenv_gym.pettingzoo import SeatEnv, join
from openenv_gym.server import create_app
from openenv_gym.server.multi_agent import make_pettingzoo
from tests.multi_agent.worlds import Cards
from tests.support.serving import serving


TICKET = "a ticket for tests"


class Tap:
    """A way to a server that keeps all that the server sends."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._target = (parts.hostname or "", parts.port or 0)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.heard = b""
        self._open: list[socket.socket] = [self._listener]
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(self._target)
            self._open += [near, far]
            for source, sink, keep in ((near, far, False), (far, near, True)):
                thread = threading.Thread(target=self._pass, args=(source, sink, keep))
                self._threads.append(thread)
                thread.start()

    def _pass(self, source: socket.socket, sink: socket.socket, keep: bool) -> None:
        try:
            while data := source.recv(65536):
                if keep:
                    self.heard += data
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def close(self) -> None:
        for each in self._open:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self._threads:
            thread.join(10)


class Players:
    """Two players, each behind a tap of its own."""

    def __init__(self, url: str, **options: Any) -> None:
        self.taps = [Tap(url), Tap(url)]
        self.seats = [
            join(
                tap.url,
                game="g",
                ticket=TICKET,
                agent=f"player_{number}",
                join_s=60,
                turn_s=60,
                **options,
            )
            for number, tap in enumerate(self.taps)
        ]
        self.pool = ThreadPoolExecutor(2)

    def both(self, function: Any) -> list[Any]:
        return [call.result(100) for call in [self.pool.submit(function, s) for s in self.seats]]

    def close(self) -> None:
        for seat in self.seats:
            seat.close()
        self.pool.shutdown()
        for tap in self.taps:
            tap.close()


@pytest.fixture
def players() -> Iterator[Players]:
    with serving(Cards) as url:
        made = Players(url)
        yield made
        made.close()


def ask_for_everything(seat: SeatEnv) -> None:
    """Try each way to what belongs to others."""
    attempts: list[tuple[str, list[Any]]] = [
        ("state", []),
        ("render", []),
        ("get", ["hands"]),
        ("get", ["infos"]),
        ("call", ["observe", ["player_0"], {}]),
        ("call", ["observe", ["player_1"], {}]),
        ("set", ["hand_size", 1]),
        ("look", ["player_0"]),
        ("look", ["player_1"]),
    ]
    for op, args in attempts:
        with pytest.raises(errors.ForbiddenOperationError):
            seat.openenv.request(op, args)
    for op in ("save_state", "observe", "json_state", "mcp", "reset_typed", "describe_actions"):
        with pytest.raises(errors.ProtocolError):
            seat.openenv.request(op, [])


def test_no_hand_is_sent_to_the_other(players: Players) -> None:
    hands: list[set[str]] = [set(), set()]

    def episode(seat: SeatEnv) -> None:
        number = int(seat.agent[-1])
        observation, info = seat.reset()
        hands[number].add(observation["hand"])
        assert info["hand"] == observation["hand"]
        ask_for_everything(seat)
        over = False
        for action in (1, 2, 9, 9):
            if over:
                break
            observation, _, terminated, truncated, _ = seat.step(action)
            over = terminated or truncated

    for _ in range(3):
        players.both(episode)

    def fail(seat: SeatEnv) -> None:
        observation, _ = seat.reset()
        hands[int(seat.agent[-1])].add(observation["hand"])
        if seat.agent == "player_0":
            seat.step(1)
            with pytest.raises(RuntimeError):
                seat.step(8)  # an exception that tells all hands
        else:
            assert seat.step(1)[3]

    players.both(fail)
    assert [len(each) for each in hands] == [4, 4]
    for number in range(2):
        heard = players.taps[number].heard
        assert all(hand.encode() in heard for hand in hands[number])  # that is how it would look
        assert not any(hand.encode() in heard for hand in hands[1 - number])


def test_no_card_of_texas_holdem_is_sent_to_the_other() -> None:
    app = create_app(dict, name="zoo", multi_agent=make_pettingzoo)
    own: list[list[bytes]] = [[], []]
    with serving(app) as url:
        players = Players(url, env_id="classic/texas_holdem-v4")

        def episode(seat: SeatEnv) -> None:
            observation, _ = seat.reset()
            over = False
            while not over:
                own[int(seat.agent[-1])].append(observation["observation"].tobytes())
                action = int(np.flatnonzero(observation["action_mask"])[0])
                observation, _, terminated, truncated, _ = seat.step(action)
                over = terminated or truncated

        for _ in range(5):
            players.both(episode)
        heard = [tap.heard for tap in players.taps]
        players.close()
    for number in range(2):
        theirs = set(own[1 - number]) - set(own[number])
        assert own[number] and theirs
        assert all(each in heard[number] for each in own[number])
        assert not any(each in heard[number] for each in theirs)


def test_a_stranger_learns_nothing(players: Players) -> None:
    url = players.taps[0].url
    with pytest.raises(errors.OpenEnvGymError):
        join(url, game="g", ticket=TICKET, agent="player_0", join_s=60, turn_s=60)
    stranger = join(url, game="g", ticket="a guessed ticket", agent="player_0", join_s=0.1)
    with pytest.raises(errors.OthersMissingError):
        stranger.reset()
    stranger.close()
