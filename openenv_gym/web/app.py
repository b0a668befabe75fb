"""The page as an ASGI application: Gradio's page, its own code, and a WebSocket for each tab."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

from openenv_gym.server.web_paths import WEB_PATH
from openenv_gym.web.live import serve_tab
from openenv_gym.web.tabs import Tabs


__all__ = ["make_app"]

_STATIC = Path(__file__).parent / "static"
_POLICY = "; ".join(
    (
        "default-src 'self'",
        "script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "font-src 'self' data:",
        "connect-src 'self' data: blob:",
        "worker-src 'self' blob:",
        "frame-ancestors 'self' https://huggingface.co",
        "base-uri 'self'",
        "form-action 'self'",
    )
)
"""Nothing is fetched from anywhere else: servers have no network, and pages tell nobody."""

_HEADERS = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"connection", b"close"),  # the server decides about each request
)

_NO_FILES = tuple(
    f"{WEB_PATH}/gradio_api/{each}" for each in ("upload", "file", "proxy", "stream", "deep_link")
)
"""What Gradio has for pages with files, which this one is not."""

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


def make_app(tabs: Tabs) -> Any:
    """Return the application.

    Args:
        tabs: The tabs of browsers.
    """
    import gradio
    from fastapi import FastAPI
    from fastapi.responses import RedirectResponse
    from fastapi.staticfiles import StaticFiles
    from starlette.routing import Route, WebSocketRoute

    from openenv_gym.web.page import STYLE, THEME, make_page

    # No descriptions of our own routes, whose pages would fetch their code from elsewhere.
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app.mount(f"{WEB_PATH}/page", StaticFiles(directory=_STATIC), name="page")

    async def enter(request: Any) -> Any:
        return RedirectResponse(f"{WEB_PATH}/", status_code=307)

    async def live(socket: Any) -> None:
        await serve_tab(socket, tabs)

    app.router.routes += [
        Route("/", enter),
        Route(WEB_PATH, enter),
        WebSocketRoute(f"{WEB_PATH}/live", live),
    ]
    gradio.mount_gradio_app(
        app,
        make_page(tabs),
        WEB_PATH,
        footer_links=[],
        ssr_mode=False,
        mcp_server=False,
        pwa=False,
        run_history=False,
        show_error=True,
        theme=THEME,
        css=STYLE,
        head='<link rel="icon" href="data:,"><script src="page/live.js" defer></script>'
        '<link rel="stylesheet" href="page/live.css">',
        allowed_paths=[],
    )
    return _Guarded(app)


class _Guarded:
    """Adds to all answers what keeps browsers here, and has no files for them, nor takes any."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                kept = [each for each in message.get("headers", ()) if each[0] != b"connection"]
                message = {**message, "headers": [*kept, *_HEADERS]}
            await send(message)

        if str(scope.get("path", "")).startswith(_NO_FILES):
            await send_with_headers({"type": "http.response.start", "status": 404})
            await send({"type": "http.response.body", "body": b""})
            return
        with contextlib.suppress(asyncio.CancelledError):
            await self._app(scope, receive, send_with_headers)
