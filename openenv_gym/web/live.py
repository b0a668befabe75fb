"""The WebSocket of a tab: views to the browser, keys and what it has shown from it."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from openenv_gym.web.keyboard import Player
from openenv_gym.web.tabs import Tab, Tabs


if TYPE_CHECKING:
    from fastapi import WebSocket

__all__ = ["serve_tab"]

_UNSEEN = 2  # views that may be on their way; more would only be late
_PATIENCE_S = 2.0  # so long a browser may take to show a view, such as one in a hidden tab


async def serve_tab(socket: WebSocket, tabs: Tabs) -> None:
    """Serve a tab's browser until it hangs up."""
    from fastapi import WebSocketDisconnect

    tab = tabs.arrive(socket.query_params.get("tab"))
    if tab is None:
        await socket.accept()
        await socket.send_json({"kind": "unknown"})
        await socket.close()
        return
    try:
        await socket.accept()
        browser = _Browser(socket, tab)
        sending = asyncio.create_task(browser.send())
        try:
            while (message := await socket.receive_json()) != {"do": "leave"}:
                await browser.take(message)
            await asyncio.to_thread(tabs.end, tab)
        finally:
            sending.cancel()
            await browser.stop()
    except (WebSocketDisconnect, RuntimeError, ValueError, KeyError):
        pass
    finally:
        tab.leave()


class _Browser:
    """What a tab's browser has, as long as it is connected.

    Args:
        socket: Its connection.
        tab: The tab.
    """

    def __init__(self, socket: WebSocket, tab: Tab) -> None:
        self._socket = socket
        self._tab = tab
        self._room = asyncio.Semaphore(_UNSEEN)
        self._player: Player | None = None
        self._news = tab.outlet.connect(asyncio.get_running_loop())

    async def send(self) -> None:
        """Tell what is new, as fast as it is shown, until a later connection is told."""
        while messages := await self._tab.outlet.take(self._news):
            for message in messages:
                if "number" in message:
                    with contextlib.suppress(asyncio.TimeoutError):
                        await asyncio.wait_for(self._room.acquire(), _PATIENCE_S)
                await self._socket.send_json(message)

    async def take(self, message: Any) -> None:
        """Do what the browser asks for.

        Raises:
            KeyError: A message has another form.
        """
        match message:
            case {"do": "shown"}:
                if self._room._value < _UNSEEN:
                    self._room.release()
            case {"do": "raw"}:
                self._tab.raw()
            case {"do": "play", "keys": dict(keys), "rate": int() | float() as rate}:
                await self.stop()
                self._player = Player(self._tab, keys, float(rate))
                self._tab.outlet.say(kind="playing", on=True)
            case {"do": "stop"}:
                await self.stop()
            case {"do": "hold", "action": action} if self._player is not None:
                self._player.hold(action)

    async def stop(self) -> None:
        """Play no more."""
        player, self._player = self._player, None
        if player is not None:
            await asyncio.to_thread(player.stop)
