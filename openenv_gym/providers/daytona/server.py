"""One server in a sandbox of its own: created, kept alive, watched, deleted."""

from __future__ import annotations

import contextlib
import http
import http.client
import logging
import os
import secrets
import shlex
import ssl
import threading
import time
import uuid
from typing import Any
from urllib.parse import urlsplit

from openenv_gym import errors
from openenv_gym._version import __version__
from openenv_gym.client import Address
from openenv_gym.providers.base import GRACE_S, NEW_ONE, ServerTarget, tail_of
from openenv_gym.providers.daytona.address import SignedAddress
from openenv_gym.providers.daytona.service import is_gone, translated
from openenv_gym.providers.owner import Owner


__all__ = ["MADE_BY", "OWNER_LABEL", "DaytonaServer"]

MADE_BY = {"openenv.made-by": "openenv-gym"}
"""Label of everything that this library makes there."""
OWNER_LABEL = "openenv.owner"

_PORT = 8000
_SESSION = "openenv"
_CREATE_S = 300.0
_READY_S = 120.0
_CALL_S = 15.0
_ASK_S = 2.0  # so often the service is asked at most whether a server lives
_TOKEN_FILE = "/tmp/openenv-token"
_KILLED = 128 + 9

_log = logging.getLogger("openenv_gym")


class DaytonaServer:
    """A server in a sandbox, which ends by itself when nobody keeps it alive.

    Args:
        client: The SDK's client.
        target: What is to be served.
        params: What to create the sandbox with; see `DaytonaProvider`.
        keep_alive_s: How often to tell the service that the sandbox is in use.
        workers: Worker processes of the server.

    Attributes:
        address: Where it is.
        token: Credential for it.

    Raises:
        ProviderPermissionError: The key does not allow it.
        ProviderUnavailableError: The service does not answer.
        ServerStartError: The sandbox, or the server in it, does not start.
    """

    def __init__(
        self,
        client: Any,
        target: ServerTarget,
        params: Any,
        *,
        keep_alive_s: float,
        workers: int = 1,
    ) -> None:
        self._owner_pid = os.getpid()
        self._lock = threading.RLock()
        self._end = threading.Event()
        self._client = client
        self._sandbox: Any = None
        self._command_id: str | None = None
        self._asked_s = 0.0
        self._lost: errors.ConnectionLostError | None = None
        self._name = f"openenv-{uuid.uuid4().hex}"
        self.token: str | None = secrets.token_urlsafe(32)
        params.name = self._name
        params.labels = {
            **MADE_BY,
            OWNER_LABEL: str(Owner.current()),
            "openenv.environment": target.package,
            "openenv.version": __version__,
        }
        try:
            with translated(f"start a sandbox for {target.package}"):
                self._sandbox = client.create(params, timeout=_CREATE_S)
                self._leave_token()
                self._command_id = self._run(_command(target, workers))
            self.address: Address = SignedAddress(self._sign, f"daytona:{self._name}")
            self._await_server()
        except BaseException:
            self.stop()
            raise
        threading.Thread(
            target=self._keep_alive, args=(keep_alive_s,), name="openenv-daytona", daemon=True
        ).start()

    @property
    def name(self) -> str:
        """Name of the sandbox."""
        return self._name

    # -- start --------------------------------------------------------------------------------

    def _leave_token(self) -> None:
        """Put the token into a file, before anything runs there that could read it.

        The variables of a sandbox are shown by the service to everybody of its organization.
        """
        assert self.token is not None
        files = self._sandbox.fs
        files.upload_file(self.token.encode(), _TOKEN_FILE, timeout=int(_CALL_S))
        files.set_file_permissions(_TOKEN_FILE, mode="600", request_timeout=_CALL_S)

    def _run(self, command: str) -> str:
        """Start a command that goes on running, and return its id."""
        from daytona import SessionExecuteRequest

        process = self._sandbox.process
        process.create_session(_SESSION, request_timeout=_CALL_S)
        request = SessionExecuteRequest(command=command, run_async=True)
        return str(process.execute_session_command(_SESSION, request, timeout=int(_CALL_S)).cmd_id)

    def _sign(self, valid_s: int) -> str:
        with translated(f"sign a URL of {self._name}"):
            signed = self._sandbox.create_signed_preview_url(
                _PORT, expires_in_seconds=valid_s, request_timeout=_CALL_S
            )
        return str(signed.url)

    def _await_server(self) -> None:
        """Wait until the server itself answers: the proxy does so before it."""
        uri = urlsplit(self.address.uri)
        end_s = time.monotonic() + _READY_S
        while True:
            with contextlib.suppress(OSError, http.client.HTTPException, errors.TransportError):
                if _answers(uri.scheme, uri.hostname or "", uri.port, uri.path):
                    return
            if (lost := self.why_lost()) is not None:
                raise errors.ServerStartError(lost.message, data=lost.data) from lost
            if time.monotonic() > end_s:
                raise errors.ServerStartError(
                    f"The server in the sandbox {self._name} did not answer in {_READY_S:g} s.",
                    data={"log": self.log_tail()},
                )
            time.sleep(0.1)

    # -- life ---------------------------------------------------------------------------------

    def _keep_alive(self, every_s: float) -> None:
        """Tell the service that the sandbox is in use: what goes through previews does not count.

        When this process is gone nobody does, and the sandbox is stopped, and with that deleted.
        """
        while not self._end.wait(every_s):
            try:
                self._sandbox.refresh_activity(request_timeout=_CALL_S)
            except Exception as error:  # whatever the SDK raises: the next time may do
                _log.warning("Cannot keep the sandbox %s alive: %s", self._name, error)

    def why_lost(self) -> errors.ConnectionLostError | None:
        """Tell why the server is gone, with its last lines; None while it runs."""
        with self._lock:
            if self._end.is_set():
                return errors.ServerDiedError(
                    f"The sandbox {self._name} was deleted.", hint=NEW_ONE
                )
            if self._lost is None and time.monotonic() > self._asked_s + _ASK_S:
                self._lost = self._ask()
                self._asked_s = time.monotonic()
            return self._lost

    def _ask(self) -> errors.ConnectionLostError | None:
        try:
            self._sandbox.refresh_data(request_timeout=_CALL_S)
            state = str(getattr(self._sandbox.state, "value", self._sandbox.state))
            if state != "started":
                reason = self._sandbox.error_reason
                return errors.ServerDiedError(
                    f"The sandbox {self._name} is {state}{f': {reason}' if reason else ''}.",
                    hint=NEW_ONE,
                )
            command = self._sandbox.process.get_session_command(
                _SESSION, self._command_id, request_timeout=_CALL_S
            )
        except Exception as error:
            if is_gone(error):
                text = f"The sandbox {self._name} is gone: it was deleted, or stopped."
                return errors.ServerDiedError(text, hint=NEW_ONE)
            return None  # the service is in trouble, which says nothing about the server
        if command.exit_code is None:
            return None
        code = command.exit_code
        how = "was killed" if code == _KILLED else f"ended with code {code}"
        return errors.ServerDiedError(
            f"The server in the sandbox {self._name} {how}.",
            hint=NEW_ONE,
            data={"log": self.log_tail(), "exit_code": code},
        )

    def log_tail(self) -> str:
        """Return the last lines that it wrote."""
        with contextlib.suppress(Exception):
            logs = self._sandbox.process.get_session_command_logs(
                _SESSION, self._command_id, request_timeout=_CALL_S
            )
            return tail_of(f"{logs.output or ''}".encode())
        return ""

    def stop(self, grace_s: float = GRACE_S) -> None:
        """Delete the sandbox, at once whatever `grace_s` says; see `RunningServer`."""
        if os.getpid() != self._owner_pid:
            return
        self._end.set()
        with self._lock:
            sandbox = self._sandbox
            if sandbox is None:
                self._delete_unseen()
                return
            try:
                sandbox.delete(timeout=_CALL_S)
            except Exception as error:
                if not is_gone(error):  # it stops, and is deleted, when nobody keeps it alive
                    _log.warning("Cannot delete the sandbox %s: %s", self._name, error)
                    return
            self._sandbox = None

    def _delete_unseen(self) -> None:
        """Delete what may have been created although nobody told us so."""
        with contextlib.suppress(Exception):
            self._client.get(self._name, request_timeout=_CALL_S).delete(timeout=_CALL_S)


def _command(target: ServerTarget, workers: int) -> str:
    """Return the shell command of a server."""
    words = ["python", "-m", "openenv_gym.server", target.package, "--host", "0.0.0.0"]
    words += ["--port", str(_PORT), "--token-file", _TOKEN_FILE]
    if target.thread_affinity:
        words.append("--thread-affinity")
    if workers > 1:
        words += ["--workers", str(workers)]
    return f"exec {shlex.join(words)}"


def _answers(scheme: str, host: str, port: int | None, path: str) -> bool:
    """Tell whether a server says that it is well, beside where it is connected to."""
    connection: http.client.HTTPConnection
    if scheme == "wss":
        context = ssl.create_default_context()
        connection = http.client.HTTPSConnection(host, port, timeout=_CALL_S, context=context)
    else:
        connection = http.client.HTTPConnection(host, port, timeout=_CALL_S)
    with contextlib.closing(connection):
        connection.request("GET", f"{path.removesuffix('/ws')}/health")
        return connection.getresponse().status == http.HTTPStatus.OK
