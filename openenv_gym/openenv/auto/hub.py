"""Spaces of the Hugging Face Hub: what a name stands for, and where a Space runs.

Nothing here downloads or runs code of a Space. The variable ``HF_ENDPOINT`` names another Hub.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from openenv_gym import errors
from openenv_gym._version import __version__
from openenv_gym.client.address import Address, parse_base_url


__all__ = ["HubRepo", "Space", "SpaceServer", "find_space", "parse_repo", "reach_space"]

_HUB = "https://huggingface.co"
_HOSTS = ("huggingface.co", "www.huggingface.co", "hf.co")
_PART = r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}"
_ANSWER_S = 10.0
_ASK_AGAIN_S = 1.0
_MAX_BYTES = 1 << 20
_RUNS = ("RUNNING", "RUNNING_BUILDING", "RUNNING_APP_STARTING")
_COMES = ("SLEEPING", "BUILDING", "APP_STARTING")  # a sleeping one wakes when somebody asks


@dataclass(frozen=True)
class HubRepo:
    """A repository of a Space.

    Attributes:
        owner: User or organisation.
        name: The Space.
    """

    owner: str
    name: str

    def __str__(self) -> str:
        return f"{self.owner}/{self.name}"

    @property
    def subdomain(self) -> str:
        """What the Space is called below ``hf.space`` (the rule is the Hub's)."""
        return re.sub(r"[^a-z0-9]", "-", str(self).lower())

    @property
    def git_url(self) -> str:
        """What ``pip install`` takes."""
        return f"git+{_endpoint()}/spaces/{self}"

    @property
    def run_command(self) -> str:
        """How to run the Space's container here."""
        image = f"registry.hf.space/{self.subdomain}:latest"
        return f"docker run -p 127.0.0.1:8000:8000 {image}"


@dataclass(frozen=True)
class Space:
    """What the Hub says of a Space.

    Attributes:
        url: Where it is served.
        stage: What it does: ``RUNNING``, ``SLEEPING``, ``PAUSED`` ...; empty where the Hub does
            not say.
        commit: Commit of its repository; None where the Hub does not say.
    """

    url: str
    stage: str = ""
    commit: str | None = None


@dataclass
class SpaceServer:
    """A Space that runs; a `RunningServer` that nobody stops here.

    Attributes:
        address: Where it is.
        token: None: the client has one, or there is none.
    """

    address: Address
    token: str | None = None

    def why_lost(self) -> errors.ConnectionLostError | None:
        """Tell why it is gone, which nobody here knows."""
        return None

    def log_tail(self) -> str:
        """Return nothing: its log is on the Hub."""
        return ""

    def stop(self, grace_s: float = 5.0) -> None:
        """Leave it alone."""


def parse_repo(name: str) -> HubRepo | None:
    """Return the repository that a name stands for; None where it is of another kind.

    Args:
        name: ``user/name``, or the URL of a Space, or of its repository.

    Raises:
        InvalidOptionError: A URL of the Hub that names no repository.
    """
    text = name.strip().rstrip("/")
    if "://" not in text:
        match = re.fullmatch(f"({_PART})/({_PART})", text)
        return None if match is None else HubRepo(*match.groups())
    try:
        url = urlsplit(text)
    except ValueError:  # such as ``http://[``: no URL of anything
        return None
    if url.hostname not in _HOSTS and url.netloc != urlsplit(_endpoint()).netloc:
        return None
    # What follows is a view of it: /tree/main, /blob/...
    match = re.match(f"/(?:spaces/)?({_PART})/({_PART})(?:/|$)", url.path)
    if match is None:
        raise errors.InvalidOptionError(
            f"{name!r:.200} is no Space: expected {_endpoint()}/spaces/user/name.", field="name"
        )
    return HubRepo(*match.groups())


def find_space(repo: HubRepo) -> Space:
    """Ask the Hub where a Space is.

    A Hub that does not answer, or wants a credential, is no obstacle: the address follows from
    the name.

    Raises:
        UnknownEnvironmentError: There is no such Space.
    """
    guess = Space(f"https://{repo.subdomain}.hf.space")
    status, body = _get(f"{_endpoint()}/api/spaces/{repo}", _ANSWER_S)
    if status == HTTPStatus.NOT_FOUND:
        raise errors.UnknownEnvironmentError(
            f"The Hub has no Space {repo}.",
            field="name",
            hint=f"Look for it at {_endpoint()}/spaces.",
            data={"repo": str(repo)},
        )
    try:
        found = json.loads(body) if status == HTTPStatus.OK else {}
    except (ValueError, RecursionError):
        found = {}
    if not isinstance(found, dict):
        return guess
    runtime = found.get("runtime")
    stage = runtime.get("stage") if isinstance(runtime, dict) else None
    commit = found.get("sha")
    return Space(
        url=_checked_host(found.get("host")) or guess.url,
        stage=stage if isinstance(stage, str) else "",
        commit=commit if isinstance(commit, str) and re.fullmatch("[0-9a-f]{40}", commit) else None,
    )


def reach_space(repo: HubRepo, wait_s: float) -> SpaceServer:
    """Return a Space that answers, after waking it where it sleeps.

    Args:
        repo: Its repository.
        wait_s: How long it may take to wake up.

    Raises:
        UnknownEnvironmentError: There is no such Space.
        ServerUnreachableError: It does not run, or not in time.
    """
    space = find_space(repo)
    server = SpaceServer(parse_base_url(space.url))
    if not space.stage or space.stage in _RUNS:
        return server
    end_s = time.monotonic() + wait_s
    while space.stage in _COMES:
        left_s = end_s - time.monotonic()
        if left_s <= 0:
            break
        if _get(f"{space.url}/health", min(left_s, _ANSWER_S))[0] == HTTPStatus.OK:
            return server
        time.sleep(max(0.0, min(_ASK_AGAIN_S, end_s - time.monotonic())))
    waited = f", and did not wake up in {wait_s:g} s" if space.stage in _COMES else ""
    raise errors.ServerUnreachableError(
        errors.printable(f"The Space {repo} does not run: the Hub says {space.stage:.40}{waited}."),
        hint=f"Start it on the Hub, or run its container here, `{repo.run_command}`, and pass "
        'base_url="http://127.0.0.1:8000".',
        data={"repo": str(repo), "stage": space.stage[:40]},
    )


def _endpoint() -> str:
    return (os.environ.get("HF_ENDPOINT") or _HUB).rstrip("/")


def _checked_host(host: Any) -> str | None:
    """Return where the Hub says that a Space is, unless that is without encryption."""
    if not isinstance(host, str):
        return None
    schemes = ("https",) if _endpoint().startswith("https:") else ("https", "http")
    try:
        url = urlsplit(host)
    except ValueError:
        return None
    return host.rstrip("/") if url.scheme in schemes and url.hostname else None


def _get(url: str, timeout_s: float) -> tuple[int, bytes]:
    """Return status and body of a page; 0 where nothing answers, in time and in bounds."""
    end_s = time.monotonic() + timeout_s
    request = urllib.request.Request(url, headers={"User-Agent": f"openenv-gym/{__version__}"})
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as response:
            body = b""
            while chunk := response.read1(1 << 16):
                body += chunk
                if len(body) > _MAX_BYTES or time.monotonic() > end_s:
                    return 0, b""
            return int(response.status), body
    except urllib.error.HTTPError as error:
        error.close()
        return error.code, b""
    except (OSError, ValueError, http.client.HTTPException):
        return 0, b""
