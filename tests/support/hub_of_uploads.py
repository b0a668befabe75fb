"""A Hub that takes Spaces: what its client needs to make one and to commit files to it."""

from __future__ import annotations

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit


__all__ = ["HubOfUploads"]


class HubOfUploads:
    """Keeps Spaces in memory.

    Attributes:
        url: Where it is.
        spaces: Whether each is private, and its files.
        commits: Paths that each commit has sent; failed ones are none.
        failures: Statuses with which the next commits are refused.
        asked: Set when a commit is asked for.
        free: While it is not set, a commit waits, and comes to nothing.
        tokens: What clients have shown.
        proposals: Commits that were pull requests.
    """

    def __init__(self) -> None:
        self.spaces: dict[str, dict[str, Any]] = {}
        self.commits: list[list[str]] = []
        self.failures: list[int] = []
        self.asked = threading.Event()
        self.free = threading.Event()
        self.free.set()
        self.tokens: set[str | None] = set()
        self.proposals = 0
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _answer(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(length)
                hub.tokens.add(self.headers.get("Authorization"))
                status, answer = hub._answer(self.command, self.path, body)
                text = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                if status >= 400:
                    self.send_header("X-Error-Message", answer["error"])
                    if status == 404:
                        self.send_header("X-Error-Code", "RepoNotFound")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = _answer

            def log_message(self, *_: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    def __enter__(self) -> HubOfUploads:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join(10)
        self._server.server_close()

    def _answer(self, method: str, url: str, body: bytes) -> tuple[int, Any]:
        path = urlsplit(url).path
        if path == "/api/whoami-v2":
            return 200, {"name": "me", "type": "user"}
        if path == "/api/validate-yaml":
            return 200, {"errors": [], "warnings": []}
        if path == "/api/repos/create":
            asked = json.loads(body)
            name = f"{asked.get('organization') or 'me'}/{asked['name']}"
            private = asked.get("private") or asked.get("visibility") == "private"
            self.spaces[name] = {"private": bool(private), "sdk": asked.get("sdk"), "files": {}}
            return 200, {"url": f"{self.url}/spaces/{name}", "name": name}
        parts = path.removeprefix("/api/spaces/").split("/")
        name = "/".join(parts[:2])
        space = self.spaces.get(name)
        if space is None:
            return 404, {"error": "Repository not found"}
        match method, parts[2:3]:
            case "GET", [] | ["revision"]:
                siblings = [{"rfilename": each} for each in space["files"]]
                facts = {"id": name, "private": space["private"], "sha": "0" * 40}
                return 200, {**facts, "siblings": siblings}
            case "GET", ["tree"]:
                return 200, [
                    {"type": "file", "path": each, "size": len(data), "oid": "0" * 40}
                    for each, data in space["files"].items()
                ]
            case "POST", ["preupload"]:
                files = json.loads(body)["files"]
                modes = [
                    {"path": each["path"], "uploadMode": "regular", "shouldIgnore": False}
                    for each in files
                ]
                return 200, {"files": modes}
            case "POST", ["commit"]:
                return self._commit(name, space, url, body)
        return 400, {"error": f"no answer to {method} {path}"}

    def _commit(self, name: str, space: Any, url: str, body: bytes) -> tuple[int, Any]:
        self.asked.set()
        if not self.free.is_set():
            self.free.wait(60)
            return 503, {"error": "too late"}
        if self.failures:
            return self.failures.pop(0), {"error": "not today"}
        lines = [json.loads(line) for line in body.splitlines()]
        sent = {}
        for line in lines:
            if line["key"] == "file":
                content = base64.b64decode(line["value"]["content"])
                sent[line["value"]["path"]] = content
            elif line["key"] == "deletedFile":
                space["files"].pop(line["value"]["path"])
        self.commits.append(sorted(sent))
        facts = {"commitUrl": f"{self.url}/spaces/{name}/commit/{'1' * 40}", "commitOid": "1" * 40}
        if "create_pr=1" in url:
            self.proposals += 1
            return 200, {**facts, "pullRequestUrl": f"{self.url}/spaces/{name}/discussions/1"}
        space["files"].update(sent)
        return 200, facts
