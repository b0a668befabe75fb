"""A server that speaks as much of Daytona's API as the provider uses, and runs sandboxes as processes.

Routes and bodies are those of the published OpenAPI description that its SDK is made from. What a
sandbox runs is run on this machine, with nothing to isolate it, on a free port in place of 8000;
a signed URL leads to a proxy that knows its token as the first part of the path, where the real
one has it in the host name.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email.parser import BytesParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support.ports import reserve_port


__all__ = ["FakeDaytona", "FakeSandbox", "fake_daytona"]

KEY = "dtn_test"


@dataclass
class FakeSandbox:
    """A sandbox: what it was created with, and the one command that runs in it."""

    id: str
    body: dict[str, Any]
    directory: str
    port: int
    state: str = "started"
    refreshed: int = 0
    process: subprocess.Popen[bytes] | None = None
    command: str = ""
    tokens: dict[str, float] = field(default_factory=dict)  # of signed URLs: until when
    modes: dict[str, str] = field(default_factory=dict)  # of files, once somebody has set them

    def place(self, path: str) -> str:
        """Return where a file of its ``/tmp`` is."""
        return path.replace("/tmp/", f"{self.directory}/")

    def run(self, command: str) -> None:
        """Start the command, where its files and its port are its own."""
        self.command = command
        there = self.place(command)
        there = there.replace("--port 8000", f"--port {self.port}")
        there = there.replace("--host 0.0.0.0", "--host 127.0.0.1")
        there = re.sub(r"exec python ", f"exec {sys.executable} ", there)
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                ["/bin/sh", "-c", there],
                env={**os.environ, **self.body.get("env", {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def log(self) -> str:
        return f"{self.directory}/log"

    def end(self) -> None:
        """End what runs in it."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def facts(self, proxy: str) -> dict[str, Any]:
        """Return what the API says of it."""
        body = self.body
        return {
            "id": self.id,
            "organizationId": "org",
            "name": body.get("name", self.id),
            "user": "daytona",
            "env": body.get("env", {}),
            "labels": body.get("labels", {}),
            "public": body.get("public", False),
            "networkBlockAll": bool(body.get("networkBlockAll")),
            "kvm": False,
            "target": body.get("target") or "us",
            "cpu": body.get("cpu") or 1,
            "gpu": body.get("gpu") or 0,
            "memory": body.get("memory") or 1,
            "disk": 3,
            "state": self.state,
            "autoStopInterval": body.get("autoStopInterval"),
            "autoDeleteInterval": body.get("autoDeleteInterval"),
            "toolboxProxyUrl": f"{proxy}/toolbox",
        }


class FakeDaytona:
    """The service; `url` is for ``DAYTONA_API_URL``."""

    def __init__(self) -> None:
        self.sandboxes: dict[str, FakeSandbox] = {}
        self.refuse: tuple[int, str] | None = None
        self._kept: list[socket.socket] = []
        self._directory = tempfile.TemporaryDirectory(prefix="openenv-fake-")
        service = self

        class Handler(_Handler):
            daytona = service

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()
        self.origin = f"http://127.0.0.1:{self._server.server_address[1]}"
        self.url = f"{self.origin}/api"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        for sandbox in list(self.sandboxes.values()):
            sandbox.end()
        for kept in self._kept:
            kept.close()
        self._directory.cleanup()

    def create(self, body: dict[str, Any]) -> FakeSandbox:
        number = secrets.token_hex(8)
        directory = os.path.join(self._directory.name, number)
        os.mkdir(directory)
        kept, port = reserve_port()
        self._kept.append(kept)
        sandbox = self.sandboxes[number] = FakeSandbox(number, body, directory, port)
        return sandbox

    def find(self, name: str) -> FakeSandbox | None:
        for sandbox in self.sandboxes.values():
            if name in (sandbox.id, sandbox.body.get("name")):
                return sandbox
        return None

    def stop(self, sandbox: FakeSandbox) -> None:
        """Do what the service does after the auto-stop interval."""
        sandbox.end()
        sandbox.state = "stopped"
        if sandbox.body.get("autoDeleteInterval") == 0:
            del self.sandboxes[sandbox.id]


class _Handler(BaseHTTPRequestHandler):
    daytona: FakeDaytona

    def log_message(self, format: str, *args: object) -> None:
        """Stay silent."""

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        if parts.path.startswith("/signed/"):
            self._proxy(parts.path)
            return
        self._route("GET", parts.path, {k: v[0] for k, v in parse_qs(parts.query).items()})

    def do_POST(self) -> None:
        parts = urlsplit(self.path)
        self._route("POST", parts.path, {k: v[0] for k, v in parse_qs(parts.query).items()})

    def do_DELETE(self) -> None:
        self._route("DELETE", urlsplit(self.path).path, {})

    def _say(self, status: int, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _body(self) -> dict[str, Any]:
        size = int(self.headers.get("Content-Length") or 0)
        data = self.rfile.read(size)
        kind = self.headers.get("Content-Type") or ""
        if kind.startswith("multipart/form-data"):
            message = BytesParser().parsebytes(f"Content-Type: {kind}\r\n\r\n".encode() + data)
            return {
                str(part.get_param("name", header="Content-Disposition")): part.get_payload(
                    decode=True
                )
                for part in message.walk()
                if not part.is_multipart()
            }
        return dict(json.loads(data or b"{}"))

    def _route(self, method: str, path: str, query: Mapping[str, str]) -> None:
        body = self._body()
        if self.headers.get("Authorization") != f"Bearer {KEY}":
            self._say(401, {"statusCode": 401, "message": "Unauthorized", "error": "Unauthorized"})
            return
        if self.daytona.refuse is not None and method == "POST" and path == "/api/sandbox":
            status, message = self.daytona.refuse
            self._say(status, {"statusCode": status, "message": message})
            return
        origin = self.daytona.origin
        words = path.strip("/").split("/")
        if words[:2] == ["api", "sandbox"] and len(words) == 2:
            if method == "POST":
                self._say(200, self.daytona.create(body).facts(origin))
                return
            wanted = json.loads(query.get("labels", "{}"))
            items = [
                each.facts(origin)
                for each in self.daytona.sandboxes.values()
                if wanted.items() <= each.body.get("labels", {}).items()
            ]
            self._say(200, {"items": items, "nextCursor": None})
            return
        if len(words) < 3 or (words[:2] != ["api", "sandbox"] and words[0] != "toolbox"):
            self._say(404, {"statusCode": 404, "message": "no such route"})
            return
        sandbox = self.daytona.find(words[2] if words[0] == "api" else words[1])
        if sandbox is None:
            self._say(404, {"statusCode": 404, "message": "Sandbox not found"})
        elif words[0] == "toolbox":
            self._toolbox(sandbox, words[2:], query, body)
        else:
            self._sandbox(sandbox, method, words[3:], query)

    def _sandbox(
        self, sandbox: FakeSandbox, method: str, words: list[str], query: Mapping[str, str]
    ) -> None:
        facts = sandbox.facts(self.daytona.origin)
        if method == "DELETE":
            sandbox.end()
            del self.daytona.sandboxes[sandbox.id]
            self._say(200, {**facts, "state": "destroyed"})
        elif words == ["last-activity"]:
            sandbox.refreshed += 1
            self._say(200, {})
        elif words[:1] == ["ports"] and words[2:] == ["signed-preview-url"]:
            token = secrets.token_hex(8)
            sandbox.tokens[token] = time.monotonic() + float(query.get("expiresInSeconds", 60))
            url = f"{self.daytona.origin}/signed/{sandbox.id}-{token}"
            port = int(words[1])
            self._say(200, {"sandboxId": sandbox.id, "port": port, "token": token, "url": url})
        elif not words:
            self._say(200, facts)
        else:
            self._say(404, {"statusCode": 404, "message": "no such route"})

    def _toolbox(
        self, sandbox: FakeSandbox, words: list[str], query: Mapping[str, str], body: dict[str, Any]
    ) -> None:
        if words == ["files", "bulk-upload"]:
            with open(sandbox.place(body["files[0].path"].decode()), "wb") as file:
                file.write(body["files[0].file"])
            self._say(200, {})
        elif words == ["files", "permissions"]:
            sandbox.modes[query["path"]] = query["mode"]
            os.chmod(sandbox.place(query["path"]), int(query["mode"], 8))
            self._say(200, {})
        elif words == ["process", "session"]:
            self._say(201, {})
        elif words[-1:] == ["exec"]:
            sandbox.run(body["command"])
            self._say(202, {"cmdId": "1"})
        elif words[-1:] == ["logs"]:
            with open(sandbox.log, errors="replace") as file:
                text = file.read()
            self._say(200, {"output": text, "stdout": text, "stderr": ""})
        elif words[-2:-1] == ["command"]:
            code = sandbox.process.poll() if sandbox.process else None
            code = 128 - code if code is not None and code < 0 else code
            said = {"id": "1", "command": sandbox.command}
            self._say(200, said if code is None else {**said, "exitCode": code})
        else:
            self._say(404, {"statusCode": 404, "message": "no such route"})

    # -- previews -----------------------------------------------------------------------------

    def _proxy(self, path: str) -> None:
        """Pass a request on to the sandbox, and then whatever comes in both directions."""
        signed, _, rest = path.removeprefix("/signed/").partition("/")
        number, _, token = signed.partition("-")
        sandbox = self.daytona.sandboxes.get(number)
        if sandbox is None or sandbox.tokens.get(token, 0) < time.monotonic():
            self._say(401, {"message": "the URL has expired"})
            return
        self.close_connection = True
        try:
            server = socket.create_connection(("127.0.0.1", sandbox.port), 60)
        except OSError:
            self._say(502, {"message": "nobody listens"})
            return
        with server:
            head = [f"GET /{rest} HTTP/1.1", *(f"{k}: {v}" for k, v in self.headers.items())]
            server.sendall("\r\n".join([*head, "", ""]).encode())
            back = threading.Thread(target=_pump, args=(server, self.connection))
            back.start()
            _pump_file(self.rfile, server)
            back.join()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        source.settimeout(None)
        while data := source.recv(65536):
            sink.sendall(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_RDWR)


def _pump_file(source: Any, sink: socket.socket) -> None:
    with suppress(OSError, ValueError):
        while data := source.read1(65536):
            sink.sendall(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_RDWR)


@contextmanager
def fake_daytona() -> Iterator[FakeDaytona]:
    """Run the service."""
    service = FakeDaytona()
    try:
        yield service
    finally:
        service.close()
