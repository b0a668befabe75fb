"""The battery: what is tried, with which arguments, and when it counts as held off."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from openenv_gym.doctor.attack.attacks import bombs, files, kernel, network, others, secrets
from openenv_gym.doctor.attack.places import BOUNDS, Place
from openenv_gym.providers.docker.daemon import MOUNT_POINT


__all__ = ["ROWS", "Held", "Row", "Scene"]


class Held(Enum):
    """When an attack counts as held off."""

    REFUSED = "refused"
    """It does not get what it is after."""
    BOUNDED = "bounded"
    """It does what it likes to its own session, and not more of it is kept than there may be."""
    ENDED = "ended"
    """It does what it likes to its own session; its owner has a typed error in time."""
    GONE = "gone"
    """What it leaves behind is gone when its session is."""


@dataclass(frozen=True)
class Scene:
    """What attacks reach for, outside the container that they run in.

    Attributes:
        gateway: Address of this machine on Docker's bridge, and a port where somebody listens;
            None where the daemon is elsewhere.
        neighbour: Address and port of another container on that bridge.
        flood_bytes: How much is written to the standard output.
    """

    gateway: tuple[str, int] | None
    neighbour: tuple[str, int] | None
    flood_bytes: int


Arguments = Callable[[Scene, Place], Mapping[str, Any] | None]
"""What a function is called with in a place; None where it cannot be tried."""


@dataclass(frozen=True)
class Row:
    """One attack.

    Attributes:
        group: What it is about.
        name: What it does.
        function: Its code.
        arguments: See `Arguments`.
        held: When it counts as held off.
        own: It is tried on a server with one session.
        shared: It is tried on a server that several sessions share.
        limit_s: How long it may take.
        reach: How the server must be reached for it; "auto" is any way.
    """

    group: str
    name: str
    function: Callable[..., Any]
    arguments: Arguments = field(default=lambda scene, place: {})
    held: Held = Held.REFUSED
    own: bool = True
    shared: bool = True
    limit_s: float = 60.0
    reach: str = "auto"


def _with(**arguments: Any) -> Arguments:
    return lambda scene, place: arguments


def _of_others(**arguments: Any) -> Arguments:
    """Say whether the code that attacks has a process of its own beside the server's."""
    return lambda scene, place: {**arguments, "of_others": place.name == "shared"}


def _of_neighbour(position: int, name: str, **arguments: Any) -> Arguments:
    """Name something of the neighbour's; see `attacks.others.live`."""
    return lambda scene, place: {
        name: place.neighbour.call(others.live)[position],
        **arguments,
    }


def _flood(scene: Scene, place: Place) -> Mapping[str, Any]:
    # Nothing bounds the log of a control container: just enough to see that.
    least = 4 * BOUNDS.log_bytes
    hardened = place.name in ("own", "shared")
    return {"size_bytes": max(scene.flood_bytes, least) if hardened else least}


ROWS = (
    Row("files", "write to the root file system", files.write_root),
    Row("files", "fill the disk", files.fill_temporary, _with(bound_bytes=BOUNDS.tmp_bytes)),
    Row("files", "use up all inodes", files.fill_inodes, _with(bound=4096)),
    Row("files", "fill /dev/shm", files.fill_shared_memory, _with(bound_bytes=1 << 20)),
    Row("files", "leave a link to /proc/1/root", files.links, _with(mount=MOUNT_POINT)),
    Row("files", "make the node of a disk", files.devices),
    Row("bombs", "fork bomb", bombs.fork_bomb, _with(bound=BOUNDS.pids)),
    Row("bombs", "thread bomb", bombs.thread_bomb, _with(bound=BOUNDS.pids)),
    Row(
        "bombs",
        "memory bomb",
        bombs.eat_memory,
        _with(bound_bytes=BOUNDS.memory_bytes + (64 << 20)),
    ),
    Row("bombs", "use all processors", bombs.burn, _with(for_s=2.0)),
    Row("bombs", "hold the interpreter", bombs.stall, held=Held.ENDED, limit_s=3.0),
    Row("bombs", "flood the output", bombs.flood, _flood, held=Held.BOUNDED, limit_s=300.0),
    Row(
        "network",
        "connect to another container",
        network.connect,
        lambda scene, place: (
            {"host": scene.neighbour[0], "port": scene.neighbour[1]} if scene.neighbour else None
        ),
    ),
    Row(
        "network",
        "connect to the host",
        network.connect,
        lambda scene, place: (
            {"host": scene.gateway[0], "port": scene.gateway[1]} if scene.gateway else None
        ),
    ),
    Row("network", "send to the internet", network.send, _with(host="1.1.1.1")),
    Row("network", "send to the metadata address", network.send, _with(host="169.254.169.254")),
    Row("network", "ask a name server", network.ask_dns),
    Row("network", "raw sockets", network.raw_sockets),
    Row("network", "sockets to a hypervisor", network.vsock),
    Row("rights", "hold a capability", kernel.capabilities),
    Row("rights", "become another user", kernel.become),
    Row("rights", "run setuid programs", kernel.setuid_programs),
    Row("rights", "make namespaces", kernel.unshare),
    Row("rights", "mount", kernel.mount, _with(place=MOUNT_POINT)),
    *(
        Row("rights", f"call {name}", kernel.call, _with(name=name))
        for name in ("bpf", "io_uring", "keyctl", "perf", "userfaultfd")
    ),
    Row("secrets", "trace the server", secrets.trace, _of_others(pid=None)),
    Row("secrets", "read the server's memory", secrets.read_server, _of_others()),
    Row(
        "secrets",
        "find the token",
        secrets.search,
        lambda scene, place: {"backwards": place.token[::-1]} if place.token else None,
        reach="exec",
    ),
    Row("secrets", "use the Docker daemon", secrets.docker_socket),
    Row("server", "close its output", others.close_output, held=Held.BOUNDED),
    Row("server", "break its owner's frames", others.break_frames, held=Held.ENDED, limit_s=20.0),
    Row(
        "leftovers",
        "daemons that ignore SIGTERM",
        others.leave_daemons,
        _with(marker="openenv-attack-daemon"),
        held=Held.GONE,
    ),
    Row("leftovers", "a server that ignores SIGTERM", others.ignore_term, held=Held.GONE),
    Row("neighbour", "stop it", others.signals_to, _of_neighbour(0, "pid"), own=False),
    Row("neighbour", "read its files", others.files_of, _of_neighbour(1, "path"), own=False),
    Row(
        "neighbour",
        "trace it",
        secrets.trace,
        _of_neighbour(0, "pid", of_others=False),
        own=False,
    ),
    Row(
        "neighbour",
        "connect to its abstract socket",
        others.abstract_socket,
        _of_neighbour(2, "name"),
        own=False,
    ),
    Row(
        "neighbour",
        "connect to its port on 127.0.0.1",
        others.loopback_socket,
        _of_neighbour(3, "port"),
        own=False,
    ),
)
"""All attacks."""
