"""What a guardian does when its owner is gone."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.support.certificates import make_certificates
from tests.support.waiting import eventually


OWNER = """
import json, sys, time
from openenv_gym.providers.guardian import guardian
for line in sys.argv[1:]:
    guardian.watch(line)
guardian.forget(sys.argv[-1])
print("ready", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM])
def test_commands_run_when_the_owner_is_gone_and_not_before(tmp_path: Path, signum: int) -> None:
    def touching(name: str) -> str:
        code = "import pathlib, sys; pathlib.Path(sys.argv[1]).touch()"
        return "command:" + json.dumps([sys.executable, "-c", code, str(tmp_path / name)])

    failing = "command:" + json.dumps([str(tmp_path / "no such program")])
    things = [failing, touching("with spaces, and a: colon"), touching("forgotten")]
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, *things], stdout=subprocess.PIPE, text=True
    )
    with owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "ready\n"
        assert list(tmp_path.iterdir()) == []
        owner.send_signal(signum)
    made = tmp_path / "with spaces, and a: colon"
    assert eventually(made.exists)
    assert not (tmp_path / "forgotten").exists()


class _Daemon(BaseHTTPRequestHandler):
    """As much of a Docker daemon as a guardian asks for."""

    removed: ClassVar[list[str]]
    hangs_up: ClassVar[int]

    def do_GET(self) -> None:
        self._answer(200, b'{"ApiVersion": "1.41"}')

    def do_DELETE(self) -> None:
        type(self).hangs_up -= 1
        if self.hangs_up >= 0:
            return  # as one does that ends
        self.removed.append(self.path)
        self._answer(204, b"")

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def _daemon(context: ssl.SSLContext | None = None, *, hangs_up: int = 0) -> Iterator[Any]:
    handler = type("Handler", (_Daemon,), {"removed": [], "hangs_up": hangs_up})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield handler, f"tcp://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def _end_an_owner(things: list[str], folder: Path, **variables: str) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, *things],
        stdout=subprocess.PIPE,
        text=True,
        cwd=folder,
        # These would replace the CA that is named.
        env={
            **{name: value for name, value in os.environ.items() if "CA_BUNDLE" not in name},
            "PYTHONPATH": os.pathsep.join(sys.path),
            **variables,
        },
    )
    with owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "ready\n"
        owner.kill()


def test_a_daemon_that_hangs_up_is_asked_again(tmp_path: Path) -> None:
    with _daemon(hangs_up=2) as (handler, address):
        _end_an_owner([f"container:a@{address}", "mount:/nothing"], tmp_path)
        assert eventually(lambda: handler.removed == ["/containers/a?force=1&v=1"])


@pytest.mark.parametrize("verify", [True, False])
def test_a_daemon_behind_tls(tmp_path: Path, verify: bool) -> None:
    pytest.importorskip("docker")
    (tmp_path / "certificates").mkdir()
    files = make_certificates(tmp_path / "certificates", "127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.cert, files.key)
    variables = {"DOCKER_CERT_PATH": "certificates"}  # as docker-py takes it, too
    if verify:
        variables["DOCKER_TLS_VERIFY"] = "1"
    with _daemon(context) as (handler, address):
        _end_an_owner([f"container:a@{address}", "mount:/nothing"], tmp_path, **variables)
        assert eventually(lambda: handler.removed == ["/containers/a?force=1&v=1"], 60)
