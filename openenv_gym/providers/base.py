"""What a provider is: something that starts a server for an environment and stops it again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, cast

from openenv_gym.client import Address
from openenv_gym.errors import (
    ConnectionLostError,
    InvalidOptionError,
    IsolationError,
    printable,
)


if TYPE_CHECKING:
    from openenv_gym.providers.inventory import Item

__all__ = [
    "GRACE_S",
    "NEW_ONE",
    "Provider",
    "RunningServer",
    "ServerTarget",
    "check_option",
    "check_workers",
    "is_text",
    "refuse_isolation",
    "tail_of",
]

GRACE_S = 5.0
"""How long a server may take to end by itself."""

NEW_ONE = "Make a new environment."
"""What to do about a server that is gone."""


_TAIL_CHARACTERS = 4096


def tail_of(log: bytes) -> str:
    """Return the end of a log as text for an exception.

    What would act on a terminal, colours included, is shown and not done: the environment that
    wrote it may mean harm.
    """
    text = log[-4 * _TAIL_CHARACTERS :].decode(errors="replace").replace("\r\n", "\n").strip()
    return printable(text)[-_TAIL_CHARACTERS:]


@dataclass(frozen=True)
class ServerTarget:
    """What is to be served.

    Attributes:
        package: Import name of the environment package, or ``gymnasium``.
        image: Name of its container image.
        untrusted: It runs code that nobody vouches for.
        thread_affinity: Every call of an environment comes from the same thread.
        num_servers: Servers that share the machine with this one, itself included.
        num_envs: Sub-environments that it will hold.
        isolate_sessions: Each of them is a session, in a process and as a user of its own.
        resets_fully: After a session nothing of it is left, so that its server may serve another.
    """

    package: str
    image: str | None = None
    untrusted: bool = False
    thread_affinity: bool = False
    num_servers: int = 1
    num_envs: int = 1
    isolate_sessions: bool = False
    resets_fully: bool = False


def check_option(name: str, value: object, expected: str, good: bool) -> None:
    """Refuse a keyword of a provider that is not what it should be.

    Args:
        name: The keyword.
        value: What it is.
        expected: What it should be, in words.
        good: Whether it is that.

    Raises:
        InvalidOptionError: It is not.
    """
    if not good:
        raise InvalidOptionError(f"{name}={value!r:.80}: expected {expected}.", field=name)


def is_text(value: object) -> bool:
    """Tell whether something is a text that is not empty."""
    return isinstance(value, str) and value != ""


def check_workers(workers: object) -> int:
    """Check how many worker processes a server is to have.

    Raises:
        InvalidOptionError: It is no such number.
    """
    good = type(workers) is int and workers >= 1
    check_option("workers", workers, "an integer of at least 1", good)
    return cast("int", workers)


def refuse_isolation(target: ServerTarget, provider: str) -> None:
    """Refuse to serve sessions that a provider cannot keep apart.

    Raises:
        IsolationError: They are to be kept apart.
    """
    if target.isolate_sessions:
        raise IsolationError(
            f"Sessions of {target.package} are to be kept apart, which provider={provider!r} "
            "cannot do.",
            hint='Take provider="docker".',
        )


class RunningServer(Protocol):
    """A server that a provider has started. It ends with the process that started it.

    Attributes:
        token: Credential for it; None where only its owner can reach it.
    """

    token: str | None

    @property
    def address(self) -> Address:
        """Where it is."""

    def why_lost(self) -> ConnectionLostError | None:
        """Tell why the server is gone, with its last lines; None while it runs."""

    def log_tail(self) -> str:
        """Return the last lines that it wrote."""

    def stop(self, grace_s: float = GRACE_S) -> None:
        """Stop it and free everything it holds. Safe to repeat, and in a forked child.

        Args:
            grace_s: How long what it runs may take to end by itself, where that is possible.
        """


class Provider(Protocol):
    """Starts servers in one kind of place.

    Constructors take the keywords of `openenv_gym.providers.sandbox.Sandbox.of` and ``workers``,
    beside their own, and refuse what they cannot honour.

    Attributes:
        name: What ``provider=`` calls it.
        isolates: It keeps what runs in a server away from this machine.
        honours: What of a sandbox it can, by the names of `Sandbox.set`. A class attribute.

    One that heeds ``ServerTarget.isolate_sessions`` has an attribute ``separates_sessions`` that
    is true; without it none is asked to.
    """

    name: str
    isolates: bool

    def start(self, target: ServerTarget) -> RunningServer:
        """Start a server; it may still be starting when this returns.

        Raises:
            ServerStartError: It cannot be started.
        """

    def inventory(self) -> list[Item]:
        """Return everything that this library has made in such places and that is still there.

        Whoever made it: see `openenv_gym.providers.inventory`.

        Raises:
            ProviderError: It cannot be found out.
        """

    def remove(self, item: Item) -> None:
        """Remove one of them; one that is gone already is as good as removed.

        Raises:
            ProviderError: It cannot be removed.
        """
