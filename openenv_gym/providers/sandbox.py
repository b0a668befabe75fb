"""What a server may have and reach, in the same words for every provider.

A provider's constructor takes these as keywords (`SANDBOX_OPTIONS`), and refuses what it cannot
honour rather than dropping it: ``docs/providers.md`` has the table.
"""

from __future__ import annotations

import ipaddress
import math
import os
import posixpath
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from openenv_gym.errors import InvalidOptionError


__all__ = ["SANDBOX_OPTIONS", "Mount", "Network", "Resources", "Sandbox"]

SANDBOX_OPTIONS = ("resources", "network", "mounts", "environment", "runtime")
"""Keywords that every provider takes, beside ``workers``."""

_LEAST_CPUS = 0.01  # below that, Docker sets no limit at all
_HOST = re.compile(
    r"(?=.{1,253}$)[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*"
)
_VOLUME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OURS = "OPENENV_SERVER"  # by which what a server started is found


@dataclass(frozen=True)
class Resources:
    """Bounds of one server. None is the provider's own default.

    Attributes:
        memory_bytes: Memory; swap is not added to it.
        cpus: Processors, as a number of them.
        gpus: GPUs, as a number of them, or ``"all"``.
        pids: Processes and threads.
        tmp_bytes: Size of ``/tmp``.
        files: Open files of each process.
        log_bytes: Log that is kept.

    Raises:
        InvalidOptionError: One of them is none of these; ``field`` names it.
    """

    memory_bytes: int | None = None
    cpus: float | None = None
    gpus: int | Literal["all"] | None = None
    pids: int | None = None
    tmp_bytes: int | None = None
    files: int | None = None
    log_bytes: int | None = None

    def __post_init__(self) -> None:
        for name, value in self.set().items():
            if name == "cpus":
                good = type(value) in (int, float) and _LEAST_CPUS <= value < math.inf
                _check(name, value, f"a finite number of at least {_LEAST_CPUS}", good)
            elif name == "gpus":
                good = value == "all" or (type(value) is int and 1 <= value < 2**31)
                _check(name, value, 'an integer of at least 1, or "all"', good)
            else:
                good = type(value) is int and 1 <= value < 2**63
                _check(name, value, "an integer of at least 1", good)

    def set(self) -> dict[str, Any]:
        """Return what is not left to the provider."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True)
class Network:
    """What a server may reach. Made by `none`, `egress`, `open` or `of`.

    Attributes:
        mode: ``"none"`` is no network; ``"egress"`` the named hosts and nothing else; ``"open"``
            whatever the provider's machine reaches.
        hosts: With ``"egress"``: ``host:port`` each, in lower case.
    """

    mode: Literal["none", "egress", "open"]
    hosts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        modes = ("none", "egress", "open")
        _check("network", self.mode, f"one of {', '.join(modes)}", self.mode in modes)
        if (self.mode == "egress") != bool(self.hosts):
            raise InvalidOptionError(
                f"network={self.mode!r} with the hosts {list(self.hosts)!r:.80}: expected hosts "
                'with "egress", and with nothing else.',
                field="network",
            )
        object.__setattr__(self, "hosts", tuple(_endpoint(host) for host in self.hosts))

    @classmethod
    def none(cls) -> Network:
        """No network."""
        return cls("none")

    @classmethod
    def egress(cls, *hosts: str) -> Network:
        """Only these, ``"host:port"`` each, such as ``"api.example.com:443"``.

        An address that is private, link-local or otherwise of no public network must be listed as
        an address: a name that leads there is refused.

        Raises:
            InvalidOptionError: One of them is none.
        """
        return cls("egress", hosts)

    @classmethod
    def open(cls) -> Network:
        """Whatever the provider's machine reaches."""
        return cls("open")

    @classmethod
    def of(cls, value: object) -> Network:
        """Read ``"none"``, ``"open"``, a list of hosts, or a `Network`.

        Raises:
            InvalidOptionError: It is none of these.
        """
        if isinstance(value, Network):
            return value
        if value == "none" or value == "open":
            return cls(value)
        if isinstance(value, (list, tuple, set, frozenset)):
            return cls.egress(*value) if value else cls.none()
        raise InvalidOptionError(
            f'network={value!r:.80}: expected "none", "open", or a list of hosts with ports.',
            field="network",
            hint='For instance network=["api.example.com:443"].',
        )

    def allows(self, host: str, port: int) -> bool:
        """Tell whether a connection to a host is among those that are allowed, by its name."""
        if self.mode != "egress":
            return self.mode == "open"
        return _join(host.lower().rstrip("."), port) in self.hosts


@dataclass(frozen=True)
class Mount:
    """A directory that a server sees.

    Attributes:
        source: A directory of this machine; without a slash, the name of a volume of the provider.
        target: Where the server sees it: an absolute path.
        read_only: It cannot be written to.

    Raises:
        InvalidOptionError: One of them is none of these; ``field`` names it.
    """

    source: str
    target: str
    read_only: bool = True

    def __post_init__(self) -> None:
        source, target = self.source, self.target
        if isinstance(source, os.PathLike):
            source = os.fspath(source)
            object.__setattr__(self, "source", source)
        expected = "an absolute path of a directory, or the name of a volume, without a slash"
        _check("source", source, expected, _is_source(source))
        expected = "an absolute path outside /dev, /proc and /sys, and without `..`"
        _check("target", target, expected, _is_target(target))
        _check("read_only", self.read_only, "True or False", isinstance(self.read_only, bool))

    @property
    def is_volume(self) -> bool:
        """Whether the source is the name of a volume."""
        return "/" not in self.source


@dataclass(frozen=True)
class Sandbox:
    """All that a server may have and reach. Made by `of` from a provider's keywords.

    Attributes:
        resources: Bounds.
        network: What it may reach; None is the provider's own default.
        mounts: Directories that it sees.
        environment: Variables that it gets beside the provider's own.
        runtime: What runs it, such as ``"runsc"``; None is the provider's own default.
    """

    resources: Resources = field(default_factory=Resources)
    network: Network | None = None
    mounts: tuple[Mount, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict, hash=False)
    runtime: str | None = None

    @classmethod
    def of(
        cls,
        *,
        resources: Resources | Mapping[str, Any] | None = None,
        network: Network | str | Iterable[str] | None = None,
        mounts: Iterable[Mount] | None = None,
        environment: Mapping[str, str] | None = None,
        runtime: str | None = None,
    ) -> Sandbox:
        """Read the keywords that every provider takes.

        Args:
            resources: `Resources`, or a mapping of its fields.
            network: `Network`, or what `Network.of` reads.
            mounts: Directories that the server sees.
            environment: Variables that it gets.
            runtime: What runs it.

        Raises:
            InvalidOptionError: One of them is not what it should be; ``field`` names it.
        """
        if isinstance(resources, Mapping):
            known = {each.name for each in fields(Resources)}
            unknown = [name for name in resources if name not in known]
            expected = f"fields of Resources ({', '.join(sorted(known))})"
            _check("resources", unknown, expected, not unknown)
            resources = Resources(**resources)
        good = resources is None or isinstance(resources, Resources)
        _check("resources", resources, "Resources(...)", good)
        listed = tuple(mounts) if isinstance(mounts, (list, tuple)) else mounts
        _check("mounts", mounts, "a list of Mount(...)", _are_mounts(listed))
        _check_environment(environment)
        _check("runtime", runtime, "the name of a runtime", _is_name_or_none(runtime))
        return cls(
            resources=resources or Resources(),
            network=None if network is None else Network.of(network),
            mounts=tuple(listed or ()),
            environment=dict(environment or {}),
            runtime=runtime,
        )

    def set(self) -> dict[str, Any]:
        """Return what is not left to the provider, by the names in a provider's ``honours``."""
        rest = {
            "network": self.network,
            "mounts": self.mounts or None,
            "environment": self.environment or None,
            "runtime": self.runtime,
        }
        wanted = {name: value for name, value in rest.items() if value is not None}
        return {**self.resources.set(), **wanted}

    def refuse_unhonoured(self, provider_name: str, honours: frozenset[str]) -> None:
        """Refuse what a provider cannot honour: nothing is dropped without a word.

        Args:
            provider_name: What ``provider=`` calls it.
            honours: What it can, by the names of `set`.

        Raises:
            InvalidOptionError: Something else is set; ``field`` names the first such thing, and
                the hint which providers can.
        """
        from openenv_gym.providers.registry import who_honours

        for name, value in self.set().items():
            if name not in honours:
                # Values of variables are nobody's business but the server's.
                shown = sorted(value) if name == "environment" else value
                able = [other for other in who_honours(name) if other != provider_name]
                raise InvalidOptionError(
                    f"provider={provider_name!r} cannot honour {name}={shown!r:.80}.",
                    field=name,
                    hint=f"Leave it away, or take {' or '.join(able)}." if able else None,
                )

    def __repr__(self) -> str:
        shown: dict[str, Any] = {"resources": self.resources} if self.resources.set() else {}
        own = self.set()
        shown |= {name: own[name] for name in SANDBOX_OPTIONS if name in own}
        if self.environment:
            shown["environment"] = sorted(self.environment)  # values may be secrets
        return f"Sandbox({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


def _check(name: str, value: object, expected: str, good: bool) -> None:
    if not good:
        raise InvalidOptionError(f"{name} is {value!r:.80}, expected {expected}.", field=name)


def _is_name_or_none(value: object) -> bool:
    return value is None or (isinstance(value, str) and value != "")


def _are_mounts(value: object) -> bool:
    if value is None:
        return True
    return isinstance(value, tuple) and all(isinstance(each, Mount) for each in value)


def _is_source(source: object) -> bool:
    if not isinstance(source, str):
        return False
    if "/" not in source:
        return _VOLUME.fullmatch(source) is not None
    return os.path.isabs(source) and "\0" not in source


def _is_target(target: object) -> bool:
    if not isinstance(target, str) or not posixpath.isabs(target) or "\0" in target:
        return False
    # A path that is its own normal form has no `..`.
    top = target.split("/")[1]
    return posixpath.normpath(target) == target and top not in ("", "dev", "proc", "sys")


def _check_environment(environment: object) -> None:
    if environment is None:
        return
    _check("environment", environment, "a mapping of texts", isinstance(environment, Mapping))
    assert isinstance(environment, Mapping)
    for name, value in environment.items():
        good = isinstance(name, str) and _VARIABLE.fullmatch(name) is not None and name != _OURS
        _check("environment", name, "names of variables (letters, digits, `_`)", good)
        if not isinstance(value, str) or "\0" in value:
            raise InvalidOptionError(
                f"environment[{name!r}] is a {type(value).__name__}, expected text without NUL.",
                field="environment",
            )


def _endpoint(text: object) -> str:
    """Return ``host:port`` in the form in which it is compared.

    Raises:
        InvalidOptionError: It is none.
    """
    host, _, port = text.rpartition(":") if isinstance(text, str) else ("", "", "")
    host = host.lower().rstrip(".")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
        good = _is_address(host)
    else:
        good = _HOST.fullmatch(host) is not None
    if not good or not port.isascii() or not port.isdigit() or not 1 <= int(port) <= 65535:
        raise InvalidOptionError(
            f"network holds {text!r:.80}, expected a host with a port.",
            field="network",
            hint='For instance "api.example.com:443", or "[2001:db8::1]:443".',
        )
    return _join(host, int(port))


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _join(host: str, port: int) -> str:
    """Return a host and a port in the one form that they have in `Network.hosts`."""
    if _is_address(host):
        host = str(ipaddress.ip_address(host))
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
