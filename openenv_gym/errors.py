"""Every exception that this library raises on purpose.

::

    OpenEnvGymError
    ├── ConfigurationError (ValueError)         what the caller asked for cannot be had
    │   ├── InvalidOptionError                  a keyword of `make` or of the server
    │   ├── UnknownEnvironmentError             no such environment here
    │   ├── ManifestError                       an `openenv.yaml` that does not hold
    │   ├── NotAwaitedError (AttributeError)    a call that was to be awaited first
    │   └── SpaceError                          a model or space that cannot be mapped or carried
    ├── EncodeError (TypeError)                 a value that cannot be sent
    ├── InvalidActionError (ValueError)         an action that the environment does not take
    ├── ResetNeededError (gymnasium.error.ResetNeeded)
    ├── EnvironmentFailedError                  the environment's own exception, from afar
    │   ├── LimitReachedError                   its server may have no more of something
    │   │   ├── OutOfSpaceError (OSError)
    │   │   ├── OutOfFilesError (OSError)
    │   │   └── OutOfPidsError (OSError, RuntimeError)
    │   └── RubricError                         a rubric that raised, or gave no finite number
    ├── ProtocolError                           the peer broke the protocol
    │   ├── DecodeError
    │   ├── FrameTooLargeError
    │   ├── NotAnOpenEnvServerError
    │   │   └── OtherProtocolError              a WebSocket server, which may speak OpenEnv's JSON
    │   └── VersionMismatchError
    ├── TransportError (ConnectionError)
    │   ├── ServerUnreachableError
    │   │   └── CertificateError                TLS with it cannot be trusted
    │   ├── ConnectionLostError
    │   │   ├── ServerDiedError                 its process or container ended, or was killed
    │   │   └── ServerOutOfMemoryError
    │   └── AddressInUseError
    ├── DeadlineExceededError (TimeoutError)
    ├── RolloutsMissingError                    a collection of rollouts lacks some of them
    ├── SessionError
    │   ├── CapacityError
    │   ├── ServerDrainingError
    │   ├── CancelledError
    │   ├── ForbiddenOperationError
    │   ├── ForkedSessionError
    │   ├── OthersMissingError              the other players of a shared game did not come
    │   ├── SessionClosedError (gymnasium.error.ClosedEnvironmentError)
    │   ├── SessionLostError
    │   │   └── ServerReloadedError             a development server started anew after an edit
    │   └── UnauthorizedError
    ├── RecordingError                          a recording that cannot be made, read or played
    │   ├── RecordingDamagedError               bytes that are not those that were written
    │   └── RecordingWriteError (OSError)       the file cannot be written
    └── ProviderError
        ├── ProviderUnavailableError            no daemon answers, or its client is missing
        ├── ProviderPermissionError             this user may not use it
        ├── IsolationError                      untrusted code, and nothing would contain it
        ├── ServerStartError
        │   └── OutOfDiskError
        └── ImageError
            ├── ImageNotFoundError
            ├── ImageBuildError                 (`log`: the end of the build's output)
            └── ImageVersionError

An exception carries data; the text is put together in ``__str__``. ``code`` names the class on
the wire (``docs/protocol.md``, section *Errors*).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import gymnasium.error


__all__ = [
    "AddressInUseError",
    "CancelledError",
    "CapacityError",
    "CertificateError",
    "ConfigurationError",
    "ConnectionLostError",
    "DeadlineExceededError",
    "DecodeError",
    "EncodeError",
    "EnvironmentFailedError",
    "ForbiddenOperationError",
    "ForkedSessionError",
    "FrameTooLargeError",
    "ImageBuildError",
    "ImageError",
    "ImageNotFoundError",
    "ImageVersionError",
    "InvalidActionError",
    "InvalidOptionError",
    "IsolationError",
    "LimitReachedError",
    "ManifestError",
    "NotAnOpenEnvServerError",
    "NotAwaitedError",
    "OpenEnvGymError",
    "OtherProtocolError",
    "OthersMissingError",
    "OutOfDiskError",
    "OutOfFilesError",
    "OutOfPidsError",
    "OutOfSpaceError",
    "ProtocolError",
    "ProviderError",
    "ProviderPermissionError",
    "ProviderUnavailableError",
    "RecordingDamagedError",
    "RecordingError",
    "RecordingWriteError",
    "ResetNeededError",
    "RolloutsMissingError",
    "RubricError",
    "ServerDiedError",
    "ServerDrainingError",
    "ServerOutOfMemoryError",
    "ServerReloadedError",
    "ServerStartError",
    "ServerUnreachableError",
    "SessionClosedError",
    "SessionError",
    "SessionLostError",
    "SpaceError",
    "TransportError",
    "UnauthorizedError",
    "UnknownEnvironmentError",
    "VersionMismatchError",
]


class OpenEnvGymError(Exception):
    """Base of every exception that this library raises on purpose.

    Args:
        message: What was wrong and what was expected.
        field: The argument, option or message field that was wrong.
        hint: What to do about it.
        data: Further facts, plain data only (they cross the wire).
    """

    code: ClassVar[str] = "error"

    def __init__(
        self,
        message: str,
        *,
        field: str | None = None,
        hint: str | None = None,
        data: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.hint = hint
        self.data: dict[str, Any] = dict(data or {})

    def __str__(self) -> str:
        return f"{self.message} {self.hint}" if self.hint else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.field, self.hint, self.data)


def _rebuild(
    cls: type[OpenEnvGymError],
    message: str,
    field: str | None,
    hint: str | None,
    data: dict[str, Any],
) -> OpenEnvGymError:
    return cls(message, field=field, hint=hint, data=data)


class ConfigurationError(OpenEnvGymError, ValueError):
    """What the caller asked for cannot be had."""

    code = "invalid_configuration"


class InvalidOptionError(ConfigurationError):
    """A keyword argument has a value that is not taken; ``field`` names it."""

    code = "invalid_option"


class UnknownEnvironmentError(ConfigurationError):
    """No environment of that name is known here."""

    code = "unknown_environment"


class ManifestError(ConfigurationError):
    """An ``openenv.yaml`` is missing or does not hold."""

    code = "invalid_manifest"


class NotAwaitedError(ConfigurationError, AttributeError):
    """What a call returns is used before the call was awaited."""

    code = "not_awaited"


class SpaceError(ConfigurationError):
    """A model or a space that cannot be mapped or carried; ``field`` is its path."""

    code = "invalid_space"


class EncodeError(OpenEnvGymError, TypeError):
    """A value cannot be sent; ``field`` is its path inside the message."""

    code = "encode_failed"


class InvalidActionError(OpenEnvGymError, ValueError):
    """The environment does not take this action."""

    code = "invalid_action"


class ResetNeededError(OpenEnvGymError, gymnasium.error.ResetNeeded):
    """``step`` or ``render`` was called before ``reset``."""

    code = "reset_needed"


class EnvironmentFailedError(OpenEnvGymError):
    """The environment raised an exception of its own.

    ``type_name`` is the exception's class there. Where that class is a builtin or one of
    Gymnasium's, the exception raised here is an instance of it too, so that ``except ValueError``
    keeps working when an environment moves away.
    """

    code = "environment_failed"

    @property
    def type_name(self) -> str:
        """Name of the exception's class where it was raised."""
        return str(self.data.get("type", "Exception"))

    def __str__(self) -> str:
        return self.message


class LimitReachedError(EnvironmentFailedError):
    """The environment ran into a limit of its server; the server goes on.

    Where a provider watches the server, ``log`` holds its last lines. Memory is not among these:
    without it the server itself ends, see `ServerOutOfMemoryError`.
    """

    code = "limit_reached"

    @property
    def log(self) -> str:
        """Last lines that the server wrote."""
        return str(self.data.get("log", ""))

    def __str__(self) -> str:
        return _with_log(OpenEnvGymError.__str__(self), self.log)


class OutOfSpaceError(LimitReachedError, OSError):
    """There is no space left where the environment may write."""

    code = "out_of_space"


class OutOfFilesError(LimitReachedError, OSError):
    """The environment has as many files open as it may."""

    code = "out_of_files"


class OutOfPidsError(LimitReachedError, OSError, RuntimeError):
    """The environment has as many processes and threads as it may."""

    code = "out_of_pids"


class RubricError(EnvironmentFailedError):
    """A rubric raised an exception, or its score is no finite number.

    ``field`` is its dotted name in the environment's rubric; "rubric" for that one itself.
    """

    code = "rubric_failed"

    def __str__(self) -> str:
        return OpenEnvGymError.__str__(self)


class ProtocolError(OpenEnvGymError):
    """The peer broke the protocol."""

    code = "protocol_error"


class DecodeError(ProtocolError):
    """Bytes that are not a message of the protocol."""

    code = "decode_failed"


class FrameTooLargeError(ProtocolError):
    """A frame exceeds the limit of its receiver."""

    code = "frame_too_large"


class NotAnOpenEnvServerError(ProtocolError):
    """Something answers at the address, but not this protocol."""

    code = "not_an_openenv_server"


class OtherProtocolError(NotAnOpenEnvServerError):
    """A WebSocket server took the connection, but not for this protocol; maybe OpenEnv's own."""

    code = "other_protocol"


class VersionMismatchError(ProtocolError):
    """Client and server speak different major versions of the protocol."""

    code = "version_mismatch"


class TransportError(OpenEnvGymError, ConnectionError):
    """Bytes cannot be moved to or from the peer."""

    code = "transport_error"


class ServerUnreachableError(TransportError):
    """Nothing answers at the address."""

    code = "server_unreachable"


class CertificateError(ServerUnreachableError):
    """The server's certificate is not one that this client trusts."""

    code = "certificate"


class ConnectionLostError(TransportError):
    """The connection broke, and the session could not be taken up again.

    Where the server is gone and wrote something, ``log`` holds its last lines.
    """

    code = "connection_lost"

    @property
    def log(self) -> str:
        """Last lines that the server wrote."""
        return str(self.data.get("log", ""))

    def __str__(self) -> str:
        return _with_log(super().__str__(), self.log)


class ServerDiedError(ConnectionLostError):
    """The server's process or container ended, or was killed."""

    code = "server_died"


class ServerOutOfMemoryError(ConnectionLostError):
    """The server was killed because it wanted more memory than it may have."""

    code = "server_out_of_memory"


class AddressInUseError(TransportError):
    """The address to listen on is taken."""

    code = "address_in_use"


class DeadlineExceededError(OpenEnvGymError, TimeoutError):
    """An answer did not come in time."""

    code = "deadline_exceeded"


class RolloutsMissingError(OpenEnvGymError):
    """Some rollouts cannot be had; ``data["missing"]`` has their numbers, seeds and reasons.

    Attributes:
        partial: What is there (`openenv_gym.ray.Rollouts`); None where nothing is, or where the
            caller has it already.
    """

    code = "rollouts_missing"
    partial: Any = None


class SessionError(OpenEnvGymError):
    """The session cannot do what was asked."""

    code = "session_error"


class CapacityError(SessionError):
    """The server holds as many sessions as it may."""

    code = "at_capacity"


class ServerDrainingError(SessionError):
    """The server is shutting down and opens no session."""

    code = "draining"


class CancelledError(SessionError):
    """The request was cancelled before it ran."""

    code = "cancelled"


class ForbiddenOperationError(SessionError, PermissionError):
    """The server does not do this for whoever connects: it is in production mode."""

    code = "forbidden_operation"


class ForkedSessionError(SessionError):
    """A forked child reached for its parent's session."""

    code = "forked_session"


class OthersMissingError(SessionError):
    """The other players of a shared game did not come in time; ``data["missing"]`` names them."""

    code = "others_missing"


class SessionClosedError(SessionError, gymnasium.error.ClosedEnvironmentError):
    """The environment was closed before."""

    code = "session_closed"


class SessionLostError(SessionError):
    """The server no longer knows the session: it ended, expired or was fenced."""

    code = "session_lost"


class ServerReloadedError(SessionLostError):
    """A development server started anew after an edit, and its sessions are lost."""

    code = "server_reloaded"


class UnauthorizedError(SessionError):
    """The server wants a token, or another one."""

    code = "unauthorized"


class RecordingError(OpenEnvGymError):
    """A recording cannot be made, read or played again."""

    code = "recording"


class RecordingDamagedError(RecordingError):
    """A recording holds bytes that are not those that were written.

    ``data["chunk"]`` is the number of the first chunk that cannot be read; chunks before it can.
    """

    code = "recording_damaged"


class RecordingWriteError(RecordingError, OSError):
    """A recording's file cannot be made or written: it exists, or there is no space or right."""

    code = "recording_write"


class ProviderError(OpenEnvGymError):
    """A server could not be started, watched or stopped."""

    code = "provider_error"


class ProviderUnavailableError(ProviderError):
    """What runs servers there does not answer, or its client is not installed."""

    code = "provider_unavailable"


class ProviderPermissionError(ProviderError, PermissionError):
    """This user may not use what runs servers there."""

    code = "provider_permission"


class IsolationError(ProviderError):
    """The environment runs code that nobody vouches for, and nothing would contain it."""

    code = "isolation_required"


class ServerStartError(ProviderError):
    """A server ended or stayed silent while it was starting; ``log`` holds its last lines."""

    code = "server_start_failed"

    @property
    def log(self) -> str:
        """Last lines that the server wrote."""
        return str(self.data.get("log", ""))

    def __str__(self) -> str:
        return _with_log(super().__str__(), self.log)


class OutOfDiskError(ServerStartError):
    """There is no space left where servers or their images are kept."""

    code = "out_of_disk"


class ImageError(ProviderError):
    """There is no usable container image; ``data["image"]`` names it."""

    code = "image_error"


class ImageNotFoundError(ImageError):
    """The image is not there, and was not to be built or cannot be."""

    code = "image_not_found"


class ImageBuildError(ImageError):
    """The image could not be built; ``log`` holds the end of the build's output."""

    code = "image_build_failed"

    @property
    def log(self) -> str:
        """Last lines of the build's output."""
        return str(self.data.get("log", ""))

    def __str__(self) -> str:
        return _with_log(super().__str__(), self.log, of="build")


class ImageVersionError(ImageError, ValueError):
    """The image holds another version of this library than the one that runs here."""

    code = "image_version"


_CONTROLS = {
    code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if code not in (9, 10)
}


def printable(text: str) -> str:
    """Return text from elsewhere in a form that does nothing to a terminal, colours included."""
    return text.translate(_CONTROLS)


def _with_log(text: str, log: str, of: str = "server") -> str:
    return f"{text}\nLast lines of the {of}:\n{log}" if log else text
