"""Servers in sandboxes of Daytona."""

from __future__ import annotations

from typing import Any, ClassVar

from openenv_gym import errors
from openenv_gym.providers.base import (
    RunningServer,
    ServerTarget,
    check_option,
    check_workers,
    is_text,
    refuse_isolation,
)
from openenv_gym.providers.daytona.server import MADE_BY, OWNER_LABEL, DaytonaServer
from openenv_gym.providers.daytona.service import connect, is_gone, translated
from openenv_gym.providers.inventory import Item
from openenv_gym.providers.owner import Owner
from openenv_gym.providers.sandbox import Sandbox


__all__ = ["DaytonaProvider"]

_GIB = 1 << 30
_REFRESHES = 3  # in the time after which a sandbox would be stopped
_CALL_S = 30.0


class DaytonaProvider:
    """Starts each server in a sandbox of Daytona's own (docs/daytona.md).

    Args:
        image: Image of the environment, in a registry that the service can reach; by default the
            one that the environment's manifest names.
        snapshot: A snapshot that was made of such an image, in place of one.
        api_key: Key of an account; by default what ``DAYTONA_API_KEY`` holds.
        api_url: Where the service is; by default what ``DAYTONA_API_URL`` says.
        region: Where sandboxes run; by default what ``DAYTONA_TARGET`` says, or the account's.
        auto_stop_minutes: A sandbox that nobody keeps alive for so long is stopped and deleted.
        workers: Worker processes of each server, which share its sessions.
        sandbox: `Sandbox`'s keywords. It honours ``memory_bytes`` in whole GiB, whole ``cpus`` and
            ``gpus`` as a number, all three with an image alone, for a snapshot has its own;
            ``network`` as ``"none"`` or ``"open"``, by default what the account allows; and
            ``environment``.

    Raises:
        InvalidOptionError: One of them is not what it should be, or cannot be honoured.
    """

    name = "daytona"
    isolates = True
    honours: ClassVar[frozenset[str]] = frozenset(
        {"cpus", "environment", "gpus", "memory_bytes", "network"}
    )

    def __init__(
        self,
        *,
        image: str | None = None,
        snapshot: str | None = None,
        api_key: str | None = None,
        api_url: str | None = None,
        region: str | None = None,
        auto_stop_minutes: int = 5,
        workers: int = 1,
        **sandbox: Any,
    ) -> None:
        for option, value in (
            ("image", image),
            ("snapshot", snapshot),
            ("api_key", api_key),
            ("api_url", api_url),
            ("region", region),
        ):
            good = value is None or is_text(value)
            shown = type(value).__name__ if option == "api_key" else value  # it may be a key yet
            check_option(option, shown, "a text that is not empty", good)
        self._sandbox = Sandbox.of(**sandbox)
        self._sandbox.refuse_unhonoured(self.name, self.honours)
        if image is not None and snapshot is not None:
            raise errors.InvalidOptionError(
                f"image={image!r:.80} and snapshot={snapshot!r:.80}: expected one of them.",
                field="snapshot",
            )
        if type(auto_stop_minutes) is not int or auto_stop_minutes < 1:
            raise errors.InvalidOptionError(
                f"auto_stop_minutes={auto_stop_minutes!r:.40}: expected an integer of at least 1.",
                field="auto_stop_minutes",
                hint="A sandbox that is never stopped outlives its owner.",
            )
        self._image, self._snapshot = image, snapshot
        self._account = {"api_key": api_key, "api_url": api_url, "region": region}
        self._auto_stop_minutes = auto_stop_minutes
        self._workers = check_workers(workers)
        self._check_resources()
        self._check_network()

    def __repr__(self) -> str:
        what = f"snapshot={self._snapshot!r}" if self._snapshot else f"image={self._image!r}"
        return f"DaytonaProvider({what}, {self._sandbox!r}, workers={self._workers})"

    def _check_resources(self) -> None:
        resources = self._sandbox.resources
        if self._snapshot is not None and resources.set():
            raise errors.InvalidOptionError(
                f"resources={resources!r:.120} with a snapshot, which has its own.",
                field="resources",
                hint="Make a snapshot with them, or name an image.",
            )
        units: dict[str, tuple[Any, bool, str]] = {
            "memory_bytes": (
                resources.memory_bytes,
                (resources.memory_bytes or 0) % _GIB == 0,
                "a multiple of 1 GiB (1 << 30)",
            ),
            "cpus": (resources.cpus, float(resources.cpus or 0).is_integer(), "a whole number"),
            "gpus": (resources.gpus, resources.gpus != "all", "a number"),
        }
        for name, (value, good, expected) in units.items():
            if value is not None and not good:
                raise errors.InvalidOptionError(
                    f"{name} is {value!r}, expected {expected}: Daytona divides no further.",
                    field=name,
                )

    def _check_network(self) -> None:
        network = self._sandbox.network
        if network is not None and network.mode == "egress":
            raise errors.InvalidOptionError(
                f"network={list(network.hosts)!r:.120}: Daytona allows hosts on all of their ports "
                "or not at all.",
                field="network",
                hint='Take "none" or "open", or provider="docker".',
            )

    # -- servers ------------------------------------------------------------------------------

    def start(self, target: ServerTarget) -> RunningServer:
        """Start a server; see `Provider`.

        Raises:
            InvalidOptionError: Nothing says which image to take.
            IsolationError: Several sessions are to be kept apart in one sandbox.
            ProviderUnavailableError: The SDK is missing, there is no key, or nobody answers.
            ProviderPermissionError: The key is wrong, or does not allow it.
            ServerStartError: The service refuses, or the server does not start.
        """
        refuse_isolation(target, self.name)
        image = self._image or target.image
        if image is None and self._snapshot is None:
            raise errors.InvalidOptionError(
                f"Nothing says which image of {target.package} Daytona is to take.",
                field="image",
                hint="Push an image to a registry that it can reach: DaytonaProvider(image=...).",
            )
        client = self._connect()
        return DaytonaServer(
            client,
            target,
            self._params(image),
            keep_alive_s=self._auto_stop_minutes * 60 / _REFRESHES,
            workers=self._workers,
        )

    def _connect(self) -> Any:
        account = self._account
        return connect(account["api_key"], account["api_url"], account["region"])

    def _params(self, image: str | None) -> Any:
        """Return what a sandbox is created with, but for what tells it from others."""
        import daytona

        network = self._sandbox.network
        options: dict[str, Any] = {
            "language": "python",
            "env_vars": dict(self._sandbox.environment),
            "public": False,
            "auto_stop_interval": self._auto_stop_minutes,
            "ephemeral": True,  # stopped is deleted
            "network_block_all": None if network is None else network.mode == "none",
        }
        if image is None or self._snapshot is not None:
            return daytona.CreateSandboxFromSnapshotParams(snapshot=self._snapshot, **options)
        resources = self._sandbox.resources
        bounds = daytona.Resources(
            cpu=None if resources.cpus is None else int(resources.cpus),
            memory=None if resources.memory_bytes is None else resources.memory_bytes // _GIB,
            gpu=None if resources.gpus is None else int(resources.gpus),
        )
        return daytona.CreateSandboxFromImageParams(image=image, resources=bounds, **options)

    # -- what is left of them -----------------------------------------------------------------

    def inventory(self) -> list[Item]:
        """Return the sandboxes that this library has made; see `Provider`."""
        client = self._connect()
        import daytona

        with translated("list sandboxes"):
            query = daytona.ListSandboxesQuery(labels=MADE_BY)
            return [
                Item(
                    self.name,
                    "sandbox",
                    str(each.name),
                    Owner.parse(str(each.labels.get(OWNER_LABEL, ""))),
                    str(each.labels.get("openenv.environment", "")),
                )
                for each in client.list(query, request_timeout=_CALL_S)
                if str(getattr(each.state, "value", each.state)) not in ("destroyed", "destroying")
            ]

    def remove(self, item: Item) -> None:
        """Delete a sandbox; see `Provider`."""
        client = self._connect()
        with translated(f"delete the sandbox {item.name}"):
            try:
                client.get(item.name, request_timeout=_CALL_S).delete(timeout=_CALL_S)
            except Exception as error:
                if not is_gone(error):
                    raise
