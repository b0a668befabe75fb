"""A real Chromium, and servers with a page."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.ports import keep_port
from tests.support.waiting import eventually


ROOT = Path(__file__).parents[3]
START_S = 90.0
SHOW_MS = 60_000
_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


class PageServer:
    """A server with a page, started by command; it can be killed and started again."""

    def __init__(self, folder: Path, environment: str, *arguments: str) -> None:
        self._kept, self.port = keep_port()  # it is to stay the same
        self.url = f"http://127.0.0.1:{self.port}"
        self._log_path = folder / f"log-{self.port}"
        self._command = [
            *(sys.executable, "-m", "openenv_gym.server", environment, "--web"),
            *("--port", str(self.port), "--drain-s", "0", *arguments),
        ]
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        with self._log_path.open("a") as log:
            self.process = subprocess.Popen(
                self._command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

        def serves() -> bool:
            assert self.process is not None and self.process.poll() is None, self.log()
            with socket.socket() as trial:
                return trial.connect_ex(("127.0.0.1", self.port)) == 0

        assert eventually(serves, START_S), self.log()

    def log(self) -> str:
        return self._log_path.read_text()

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(60)

    def close(self) -> None:
        assert self.process is not None
        self.process.terminate()
        self.process.wait(60)
        self._kept.close()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., PageServer]]:
    started: list[PageServer] = []

    def start(environment: str, *arguments: str) -> PageServer:
        started.append(PageServer(tmp_path, environment, *arguments))
        return started[-1]

    yield start
    for server in started:
        server.close()
        assert "Traceback" not in server.log(), server.log()


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("Chromium is not installed (Debian: chromium)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(_FLAGS))
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium: Any) -> Iterator[Callable[..., Any]]:
    """Return a function that opens the page of a server; nothing else may be asked for anything."""
    contexts: list[Any] = []
    asked: set[str] = set()
    wrong: list[str] = []

    def note(request: Any) -> None:
        url = urllib.parse.urlsplit(request.url)
        if url.scheme not in ("data", "blob"):
            asked.add(url.hostname or "")

    def open_(url: str, *, ready: str = "#oe-step", **options: Any) -> Any:
        context = chromium.new_context(**{"viewport": {"width": 1200, "height": 900}, **options})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(SHOW_MS)
        page.on("request", note)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        _go(page, f"{url}/web/")
        page.wait_for_selector(ready)
        page.wait_for_selector("#oe-status.ok")
        return page

    yield open_
    for context in contexts:
        context.close()
    assert asked <= {"127.0.0.1"}, asked
    assert not wrong, wrong


def _go(page: Any, url: str) -> None:
    """Load a page; a change of the machine's network interfaces has Chromium break off."""
    for _ in range(5):
        with contextlib.suppress(Exception):
            page.goto(url)
            page.wait_for_selector("#oe-tab", state="attached", timeout=30_000)
            return
        time.sleep(1)
    page.goto(url)


@pytest.fixture
def keep(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Return a function that keeps a picture of a page where ``OPENENV_PICTURES`` says so."""
    folder = os.environ.get("OPENENV_PICTURES")

    def save(page: Any, name: str, **options: Any) -> None:
        if folder:
            page.screenshot(path=str(Path(folder) / f"{name}.png"), **options)

    return save
