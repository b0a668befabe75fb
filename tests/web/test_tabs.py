"""Each tab has a session of its own; what goes wrong is told, and ends nothing."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from openenv_gym import errors
from openenv_gym.server import Application, Server, create_app, load_app
from openenv_gym.web.keyboard import Player
from openenv_gym.web.service import Service
from openenv_gym.web.tabs import Tab, Tabs
from tests.support.waiting import eventually
from tests.support.worlds import CountingEnv


class Site:
    """A server, and the page's side of it."""

    def __init__(self, app: Application, **options: Any) -> None:
        self.server = Server(app, **options)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._channel = ours
        self.server.adopt_channel(theirs)
        self.server.start()
        self.tabs = Tabs(Service(ours, None, app.metadata()))

    def tab(self, peer: str = "192.0.2.1:7") -> Tab:
        return self.tabs.add(peer)

    def close(self) -> None:
        self.tabs.close()
        self.server.stop()
        self._channel.close()


@contextlib.contextmanager
def site(app: Application, **options: Any) -> Iterator[Site]:
    made = Site(app, **options)
    try:
        yield made
    finally:
        made.close()


def news(tab: Tab) -> list[dict[str, Any]]:
    """Return what the tab's browser is told."""

    async def take() -> list[dict[str, Any]]:
        line = tab.outlet.connect(asyncio.get_running_loop())
        return await asyncio.wait_for(tab.outlet.take(line), 60)

    return asyncio.run(take())


def test_two_tabs_are_two_sessions() -> None:
    with site(create_app(CountingEnv)) as made:
        first, second = made.tab(), made.tab()
        for tab in (first, second):
            tab.open({})
            tab.reset(1, None)
        for _ in range(3):
            first.step({"action": 1})
        second.step({"action": 2})
        (one,), (other,) = news(first), news(second)
        assert (one["step"], other["step"]) == (3, 1)
        assert [row["action"] for row in one["rows"]] == ["reset", "1", "1", "1"]
        assert [row["action"] for row in other["rows"]] == ["reset", "2"]
        assert len(made.server.sessions) == 2
        assert first.name != second.name and len(first.name) >= 24


def test_an_environment_that_can_draw_is_asked_to() -> None:
    with site(load_app("chess_env")) as made:
        tab = made.tab()
        tab.open({})
        tab.reset(None, None)
        (view,) = news(tab)
        assert view["panels"][0]["type"] == "picture"
        assert {"move": "e2e4"} in tab.described["legal"]


def test_what_is_wrong_is_told_and_the_session_goes_on() -> None:
    with site(load_app("gymnasium")) as made:
        tab = made.tab()
        with pytest.raises(errors.InvalidOptionError, match="env_id"):
            tab.open({})
        tab.open({"env_id": "CartPole-v1"})
        tab.reset(1, None)
        with pytest.raises(errors.InvalidActionError):
            tab.step({"action": 5})
        assert tab.step({"action": 1}) is False


def test_sessions_of_tabs_count_as_those_of_their_browsers() -> None:
    with site(create_app(CountingEnv), max_sessions_per_peer=1) as made:
        made.tab("192.0.2.1:1").open({})
        with pytest.raises(errors.CapacityError):
            made.tab("192.0.2.1:2").open({})
        made.tab("192.0.2.2:1").open({})


def test_a_tab_watches_others_and_not_itself() -> None:
    with site(create_app(CountingEnv)) as made:
        trainer, viewer = made.tab(), made.tab()
        for tab in (trainer, viewer):
            tab.open({})
            tab.reset(1, None)
        (listed,) = viewer.sessions()
        assert listed["session"] == trainer.session_name
        news(viewer)
        viewer.watch(listed["session"], 0)
        trainer.step({"action": 7})
        told: list[dict[str, Any]] = []

        def seen() -> bool:
            told.extend(news(viewer))
            return any(each.get("watched") for each in told)

        assert eventually(seen)
        view = next(each for each in told if each.get("watched"))
        assert (view["action"], view["watched"]) == ("7", "CountingEnv")
        viewer.step({"action": 1})  # its own session is still there, and shown again
        assert news(viewer)[-1]["watched"] is None


def test_keys_step_at_a_steady_rate_until_the_episode_is_over() -> None:
    with site(load_app("gymnasium")) as made:
        tab = made.tab()
        tab.open({"env_id": "CartPole-v1"})
        tab.reset(None, None)
        player = Player(tab, {"field": "action", "nothing": None}, 60)
        player.hold(1)
        assert eventually(lambda: tab.over)
        player.stop()
        rows = [row for message in news(tab) for row in message.get("rows", ())]
        assert rows[0]["action"] == "reset" and rows[-1]["done"]
        assert {row["action"] for row in rows[1:]} == {"1"}


def test_tabs_that_are_closed_end_their_sessions() -> None:
    with site(create_app(CountingEnv)) as made:
        tab = made.tab()
        tab.open({})
        made.tabs.close()
        assert eventually(lambda: not len(made.server.sessions))
        assert made.tabs.get(tab.name) is None
