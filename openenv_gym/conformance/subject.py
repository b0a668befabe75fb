"""The environment that is looked at: its files, its server, and how to make one."""

from __future__ import annotations

import contextlib
import http.client
import importlib.util
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openenv_gym import errors
from openenv_gym.conformance.rules import NotHere, Unknown
from openenv_gym.credentials import token_of_process


if TYPE_CHECKING:
    from types import TracebackType

    import gymnasium

    from openenv_gym.models.manifest import Manifest
    from openenv_gym.registration.catalogue import CatalogueEntry
    from openenv_gym.registration.shared import SharedServer

__all__ = ["Subject"]

_TIMEOUT_S = 30.0
_NONE = "no environment can be made"
_SEVERAL = "it is for several agents, which openenv_gym.pettingzoo makes"


class Subject:
    """An environment that is looked at. A server is started when it is first needed.

    Args:
        package: What a server is told to serve; None with `url`.
        folder: Where its files are; None where they are not at hand.
        url: Address of a server that runs already.
        options: What environments are made with.
        provider: Where the server runs; by default a process, or a container where the manifest
            calls the code untrusted.
    """

    def __init__(
        self,
        package: str | None = None,
        *,
        folder: Path | None = None,
        url: str | None = None,
        options: dict[str, Any] | None = None,
        provider: str | None = None,
    ) -> None:
        self.package = package
        self.folder = folder
        self.url = url
        self._options = dict(options or {})
        self._manifest = _manifest_of(folder, package)
        self._untrusted = self._manifest is not None and self._manifest.untrusted
        self._provider = provider or ("docker" if self._untrusted else "process")
        self._server: SharedServer | None = None
        self._problem: str | None = None
        self._several = False
        self._open: list[gymnasium.Env[Any, Any]] = []

    @property
    def has_options(self) -> bool:
        """Whether environments are made with options."""
        return bool(self._options)

    @property
    def has_files(self) -> bool:
        """Whether there is a package to be read."""
        return self.folder is not None and self.folder.is_dir()

    def start(self) -> None:
        """Start the server, where it does not run.

        Raises:
            OpenEnvGymError: It cannot be started, or makes no environment.
            NotHere: It makes environments with several agents alone.
            Unknown: It could not before.
        """
        self._check()
        try:
            self._make({}).close()
        except errors.InvalidOptionError as error:
            self._several = error.field == "multi_agent"
            self._problem = _NONE
            self._check_agents()
            raise
        except errors.TransportError as error:
            self._problem = _NONE
            log = error.data.get("log") or (self._server and self._server.running.log_tail())
            raise errors.ServerStartError(error.message, data={"log": log or ""}) from error
        except Exception:
            self._problem = _NONE
            raise

    def make(self, **options: Any) -> gymnasium.Env[Any, Any]:
        """Make an environment, which `close` closes if nobody else does.

        Raises:
            OpenEnvGymError: It cannot be made.
            NotHere: None with one agent can be.
            Unknown: None could be made before.
        """
        self._check()
        return self._make(options)

    def _check(self) -> None:
        self._check_agents()
        if self._problem is not None:
            raise Unknown(self._problem)

    def _check_agents(self) -> None:
        if self._several:
            raise NotHere(_SEVERAL)

    def _make(self, options: dict[str, Any]) -> gymnasium.Env[Any, Any]:
        from openenv_gym.registration import lookup
        from openenv_gym.registration.make import make_env

        options = {**self._options, **options, "timeout_s": _TIMEOUT_S, "hosted_time_limit": False}
        if self.url is not None:
            env = make_env(lookup("openenv/Remote-v0"), base_url=self.url, **options)
        else:
            env = make_env(self._entry(None), server=self._running(), **options)
        self._open.append(env)
        return env

    def get(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Send an HTTP request to the server; return the status and what it answers.

        Raises:
            NotHere: No environment with one agent can be made, which answers need.
            Unknown: No environment could be made before.
            OSError: The connection breaks.
        """
        from openenv_gym.client import parse_base_url

        self._check()
        self._close_environments()  # where places are few, the request needs one
        address = parse_base_url(self.url) if self.url else self._running().running.address
        prefix = getattr(address, "prefix", "")
        connection = http.client.HTTPConnection("localhost", timeout=_TIMEOUT_S)
        with contextlib.closing(connection):
            connection.sock = address.dial(_TIMEOUT_S)
            headers = {"Content-Type": "application/json"}
            if self.url is not None:
                headers["Host"] = getattr(address, "host", "localhost")
                if (token := token_of_process()) is not None:
                    headers["Authorization"] = f"Bearer {token}"
            data = None if body is None else json.dumps(body)
            connection.request(method, f"{prefix}{path}", data, headers)
            response = connection.getresponse()
            text = response.read()
        try:
            return response.status, json.loads(text)
        except ValueError:
            return response.status, text.decode(errors="replace")

    def close(self) -> None:
        """Close what was made, and stop the server."""
        self._close_environments()
        if self._server is not None:
            self._server.close()
            self._server = None

    def _close_environments(self) -> None:
        for env in self._open:
            with contextlib.suppress(Exception):
                env.close()
        self._open.clear()

    def _entry(self, package: str | None) -> CatalogueEntry:
        """Return what stands for an id; without a package it takes what the server serves."""
        from openenv_gym.registration.catalogue import CatalogueEntry

        image = None
        if self._manifest is not None and self._provider == "docker":
            image = self._manifest.image
        # Untrusted is what starts a server. On one that runs, contained, the rules have sessions
        # beside each other, to see whether they notice.
        untrusted = self._untrusted and package is not None
        return CatalogueEntry(
            id="openenv/Validated-v0", package=package, image=image, untrusted=untrusted
        )

    def _running(self) -> SharedServer:
        from openenv_gym.registration.shared import SharedServer
        from openenv_gym.registration.starting import start

        if self._server is None:
            try:
                running = start(self._entry(self.package), self._provider)
            except errors.IsolationError as error:
                raise errors.IsolationError(
                    f"{self.package} runs code that nobody vouches for, and "
                    f"provider={self._provider!r} contains nothing of what that code does.",
                    hint="Look at it in a container, --provider docker, or at a server that you "
                    "start yourself, --url.",
                ) from error
            self._server = SharedServer(self._entry(None), running)
        return self._server

    def __enter__(self) -> Subject:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _manifest_of(folder: Path | None, package: str | None) -> Manifest | None:
    """Return the manifest of a package; None where none is found, or it does not hold."""
    from openenv_gym.models.manifest import load_manifest

    with contextlib.suppress(errors.ManifestError, OSError, ImportError, ValueError):
        if folder is None and package is not None:
            spec = importlib.util.find_spec(package.partition(":")[0].partition(".")[0])
            folder = None if spec is None or spec.origin is None else Path(spec.origin).parent
        return None if folder is None else load_manifest(folder / "openenv.yaml")
    return None
