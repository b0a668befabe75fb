"""A tab lives as long as somebody is there for it, and takes nothing with it when it goes."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fastapi import WebSocketDisconnect

from openenv_gym import errors
from openenv_gym.server import create_app
from openenv_gym.web import tabs as tabs_module
from openenv_gym.web.live import serve_tab
from openenv_gym.web.page import _Play
from openenv_gym.web.tabs import Tab
from tests.support.waiting import eventually
from tests.support.worlds import BlockingEnv, CountingEnv
from tests.web.test_tabs import Site, site


UNUSED_S = 0.3


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tab whose browser is gone is closed at once, almost."""
    monkeypatch.setattr(tabs_module, "_UNUSED_S", UNUSED_S)
    monkeypatch.setattr(tabs_module, "_LOOK_S", 0.02)


@contextlib.contextmanager
def blocked() -> Iterator[None]:
    """Steps of `BlockingEnv` wait, as long as this goes on."""
    BlockingEnv.gate.clear()
    BlockingEnv.entered.clear()
    try:
        yield
    finally:
        BlockingEnv.gate.set()


class Line:
    """A browser's connection, as the program of the page has it.

    Attributes:
        told: What was sent.
        said: What it is going to say; None hangs up.
        flows: While it is not set, sending waits.
        sending: Set when something is being sent.
        heard: Set when it is listened to; from then on it is the latest one that is told.
    """

    def __init__(self, tab: Tab) -> None:
        self.query_params = {"tab": tab.name}
        self.told: list[dict[str, Any]] = []
        self.said: asyncio.Queue[Any] = asyncio.Queue()
        self.flows = asyncio.Event()
        self.flows.set()
        self.sending = asyncio.Event()
        self.heard = asyncio.Event()

    def texts(self) -> list[str]:
        """Return what was sent of what tests say."""
        return [each["text"] for each in self.told if each["kind"] == "trouble"]

    async def accept(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def send_json(self, message: dict[str, Any]) -> None:
        self.sending.set()
        await self.flows.wait()
        await asyncio.sleep(0.01)
        self.told.append(message)

    async def receive_json(self) -> Any:
        self.heard.set()
        said = await self.said.get()
        if said is None:
            raise WebSocketDisconnect
        return said


async def connected(made: Site, tab: Tab) -> tuple[Line, asyncio.Task[None]]:
    line: Any = Line(tab)
    serving = asyncio.create_task(serve_tab(line, made.tabs))
    await line.heard.wait()
    return line, serving


async def soon(condition: Callable[[], bool]) -> bool:
    """Tell whether a condition holds, at the latest after a while; the loop goes on meanwhile."""
    return await asyncio.to_thread(eventually, condition)


def loaded(made: Site) -> Callable[[], str]:
    """Return what loads the page, and returns the name of the tab."""
    play = object.__new__(_Play)  # without Gradio's blocks, which leave event loops open
    play._tabs = made.tabs
    request: Any = types.SimpleNamespace(headers={})
    return lambda: str(play._load(request)[0])


@pytest.mark.usefixtures("impatient")
def test_a_tab_that_has_connected_again_outlives_its_earlier_connection() -> None:
    with site(create_app(CountingEnv)) as made:
        tab = made.tab()
        tab.open({})

        async def connect_twice() -> None:
            first, serving_first = await connected(made, tab)
            tab.leave()  # it has been loaded
            second, serving_second = await connected(made, tab)
            first.said.put_nowait(None)  # only now it is noticed that this one is dead
            await serving_first
            await asyncio.sleep(3 * UNUSED_S)
            assert made.tabs.get(tab.name) is tab
            await asyncio.to_thread(tab.reset, 1, None)
            await asyncio.to_thread(tab.step, {"action": 3})
            assert await soon(lambda: bool(second.told) and second.told[-1].get("step") == 1)
            second.said.put_nowait(None)
            await serving_second

        asyncio.run(connect_twice())
        assert eventually(lambda: made.tabs.get(tab.name) is None)


def test_what_is_new_goes_to_the_latest_connection_alone() -> None:
    with site(create_app(CountingEnv)) as made:
        tab = made.tab()
        tab.open({})

        async def connect_twice() -> None:
            first, serving_first = await connected(made, tab)
            first.flows.clear()
            tab.outlet.say(kind="trouble", text="to the first")
            await first.sending.wait()
            second, serving_second = await connected(made, tab)
            first.flows.set()
            assert await soon(lambda: first.texts() == ["to the first"])
            said = []
            for number in range(5):
                said.append(str(number))
                tab.outlet.say(kind="trouble", text=said[-1])
                assert await soon(lambda: second.texts() == said)
            assert first.texts() == ["to the first"]
            for line, serving in ((first, serving_first), (second, serving_second)):
                line.said.put_nowait(None)
                await serving

        asyncio.run(connect_twice())


@pytest.mark.usefixtures("impatient")
def test_an_environment_may_take_longer_to_make_than_a_tab_is_kept_unused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept: list[bool] = []
    leave = Tab.leave

    def leave_what_is_there(tab: Tab) -> None:
        kept.append(made.tabs.get(tab.name) is tab and tab.session_name != "")
        leave(tab)

    monkeypatch.setattr(Tab, "leave", leave_what_is_there)

    class SlowEnv(CountingEnv):
        def __init__(self) -> None:
            time.sleep(3 * UNUSED_S)
            super().__init__()

    with site(create_app(SlowEnv)) as made:
        name = loaded(made)()
        assert kept == [True]
        # From then on its browser has to come.
        assert eventually(lambda: made.tabs.get(name) is None)
        assert eventually(lambda: not len(made.server.sessions))


@pytest.mark.usefixtures("impatient")
def test_a_tab_whose_environment_is_busy_holds_up_no_other() -> None:
    with site(create_app(BlockingEnv)) as made, blocked():
        busy, idle = made.tab(), made.tab()
        for tab in (busy, idle):
            tab.open({})
            tab.reset(1, None)
        told: list[BaseException] = []

        def step() -> None:
            try:
                busy.step({"action": 1})
            except errors.OpenEnvGymError as error:
                told.append(error)

        thread = threading.Thread(target=step)
        thread.start()
        assert BlockingEnv.entered.wait(60)
        busy.leave()
        # The step ends after 30 s, where nobody opens its gate.
        assert eventually(lambda: made.tabs.get(busy.name) is None, 20)
        idle.leave()
        assert eventually(lambda: len(made.server.sessions) <= 1, 20)  # the busy one's, at most
        thread.join(20)
        assert isinstance(told[0], errors.SessionClosedError)  # not held up itself


def test_a_browser_that_says_that_it_leaves_ends_its_session_at_once() -> None:
    with site(create_app(CountingEnv), max_sessions_per_peer=1) as made:
        tab = made.tab()
        tab.open({})

        async def leave() -> None:
            line, serving = await connected(made, tab)
            line.said.put_nowait({"do": "leave"})
            await serving

        asyncio.run(leave())
        assert made.tabs.get(tab.name) is None
        made.tab().open({})  # the page, loaded anew


def test_a_tab_that_was_closed_opens_and_watches_nothing() -> None:
    with site(create_app(CountingEnv)) as made:
        trainer, tab = made.tab(), made.tab()
        trainer.open({})
        tab.close()
        with pytest.raises(errors.SessionClosedError, match="closed"):
            tab.open({})
        with pytest.raises(errors.SessionClosedError, match="closed"):
            tab.watch(trainer.session_name, 0)
        assert len(made.server.sessions) == 1


def test_a_tab_that_is_closed_while_it_opens_leaves_no_session() -> None:
    began, go = threading.Event(), threading.Event()

    class SlowEnv(CountingEnv):
        def __init__(self) -> None:
            began.set()
            assert go.wait(90)
            super().__init__()

    with site(create_app(SlowEnv)) as made:
        tab = made.tab()
        told: list[BaseException] = []

        def open_() -> None:
            try:
                tab.open({})
            except errors.OpenEnvGymError as error:
                told.append(error)

        thread = threading.Thread(target=open_)
        thread.start()
        assert began.wait(60)
        closing = threading.Thread(target=tab.close)
        closing.start()
        closing.join(60)
        assert not closing.is_alive()
        go.set()
        thread.join(60)
        assert isinstance(told[0], errors.SessionClosedError)
        assert eventually(lambda: not len(made.server.sessions))
