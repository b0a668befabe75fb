"""The environment that is looked at: its files, its server, and how to make one."""

from __future__ import annotations

import contextlib
import http.client
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openenv_gym import errors
from openenv_gym.conformance.rules import NotHere, Unknown
from openenv_gym.credentials import token_of_process


if TYPE_CHECKING:
    from types import TracebackType

    import gymnasium

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
        provider: Where the server runs.
    """

    def __init__(
        self,
        package: str | None = None,
        *,
        folder: Path | None = None,
        url: str | None = None,
        options: dict[str, Any] | None = None,
        provider: str = "process",
    ) -> None:
        self.package = package
        self.folder = folder
        self.url = url
        self._options = dict(options or {})
        self._provider = provider
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

        return CatalogueEntry(id="openenv/Validated-v0", package=package, image=self._image())

    def _image(self) -> str | None:
        if self.folder is None or self._provider != "docker":
            return None
        from openenv_gym.models.manifest import load_manifest

        with contextlib.suppress(errors.ManifestError):
            return load_manifest(self.folder / "openenv.yaml").image
        return None

    def _running(self) -> SharedServer:
        from openenv_gym.registration.shared import SharedServer
        from openenv_gym.registration.starting import start

        if self._server is None:
            running = start(self._entry(self.package), self._provider)
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
