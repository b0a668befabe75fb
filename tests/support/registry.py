"""A registry of container images on this machine: Debian's, which keeps them below a directory."""

from __future__ import annotations

import base64
import contextlib
import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.engines import missing
from tests.support.ports import keep_port


__all__ = ["ImageRegistry", "image_registry"]

_START_S = 90.0
_END_S = 10.0

_CONFIG = """\
version: 0.1
log: {{level: warn}}
storage: {{filesystem: {{rootdirectory: {storage}}}}}
http: {{addr: {address}}}
auth: {{htpasswd: {{realm: test, path: {passwords}}}}}
"""
_USER, _PASSWORD = "me", "secret"
_BCRYPT = "$2b$05$LbINXpsH3iBBjeT15SjOAOR7X3NSzvHhgN2UUvPepCWWsWoSiuMMe"
"""The password, as the registry wants it."""


@dataclass
class ImageRegistry:
    """A registry that runs.

    Attributes:
        address: ``host:port``; an engine speaks plain HTTP with what is on the loopback interface.
        login: What `docker login` would have written: the directory ``DOCKER_CONFIG`` names.
    """

    address: str
    login: Path

    def tags(self, name: str) -> list[str]:
        """Return the tags of a repository; none where it is not there."""
        request = urllib.request.Request(f"http://{self.address}/v2/{name}/tags/list")
        request.add_header("Authorization", f"Basic {_auth()}")
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                tags: list[str] = json.load(answer)["tags"]
                return tags
        except urllib.error.HTTPError as error:
            with error:
                return []


@contextlib.contextmanager
def image_registry(directory: Path) -> Iterator[ImageRegistry]:
    """Run a registry that only who has logged in may use; skips where none is installed.

    Args:
        directory: What gets its images.
    """
    program = shutil.which("docker-registry")
    if program is None:
        missing("registry", "docker-registry is not installed (Debian has a package of this name)")
    keeper, port = keep_port()
    address = f"127.0.0.1:{port}"
    passwords, config, login = (directory / name for name in ("passwords", "config.yml", "login"))
    passwords.write_text(f"{_USER}:{_BCRYPT}\n")
    storage = directory / "storage"
    config.write_text(_CONFIG.format(storage=storage, address=address, passwords=passwords))
    login.mkdir()
    (login / "config.json").write_text(json.dumps({"auths": {address: {"auth": _auth()}}}))
    log = directory / "log"
    with (
        keeper,
        log.open("wb") as output,
        subprocess.Popen(
            [program, "serve", str(config)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        ) as process,
    ):
        try:
            end_s = time.monotonic() + _START_S
            while not _answers(address):
                assert process.poll() is None and time.monotonic() < end_s, log.read_text()
                time.sleep(0.05)
            yield ImageRegistry(address, login)
        finally:
            process.terminate()
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                process.kill()


def _auth() -> str:
    return base64.b64encode(f"{_USER}:{_PASSWORD}".encode()).decode()


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with contextlib.suppress(OSError), socket.create_connection((host, int(port)), timeout=1):
        return True
    return False
