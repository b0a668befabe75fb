"""Tasks and nodes of a swarm, as its manager tells of them."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from openenv_gym.client import TcpAddress
from openenv_gym.providers.base import tail_of
from openenv_gym.providers.swarm.launcher import OUT_OF_MEMORY
from openenv_gym.providers.swarm.spec import published_port


__all__ = [
    "Node",
    "Task",
    "active_nodes",
    "find_node",
    "find_task",
    "list_tasks",
    "status_of",
    "tail",
]

_TAIL_LINES = 40
_LOG_S = 3.0
_NOWHERE = ("", "0.0.0.0", "::")
_LOOPBACK = ("127.0.0.1", "::1", "localhost")

# A task goes through these, and back never (https://docs.docker.com/engine/swarm/
# how-swarm-mode-works/swarm-task-states/).
_ENDED = ("complete", "shutdown", "failed", "rejected", "remove", "orphaned")


@dataclass(frozen=True)
class Task:
    """One task, at one moment.

    Attributes:
        id: Its id, which its successor does not have.
        slot: Number within the service, which its successor has.
        node_id: Where it runs; "" where that is not decided.
        state: What it is, in Swarm's words.
        wanted: Whether it is meant to run.
        error: What went wrong, in Swarm's words; "" where nothing did.
        exit_code: Of its container, once it has ended.
        container_id: "" where there is none yet.
        port: Of its node, behind which it listens; None where it does not yet.
    """

    id: str
    slot: int
    node_id: str
    state: str
    wanted: bool
    error: str
    exit_code: int
    container_id: str
    port: int | None

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> Task:
        """Read what the Engine's API says of a task."""
        status = facts.get("Status") or {}
        container = status.get("ContainerStatus") or {}
        ports = (status.get("PortStatus") or {}).get("Ports") or ()
        return cls(
            id=str(facts["ID"]),
            slot=int(facts.get("Slot") or 0),
            node_id=str(facts.get("NodeID") or ""),
            state=str(status.get("State") or "new"),
            wanted=facts.get("DesiredState") in ("ready", "running"),
            error=str(status.get("Err") or ""),
            exit_code=int(container.get("ExitCode") or 0),
            container_id=str(container.get("ContainerID") or ""),
            port=published_port(ports),
        )

    @property
    def serves(self) -> bool:
        """Whether it runs and is meant to go on."""
        return self.state == "running" and self.wanted and self.port is not None

    @property
    def ended(self) -> bool:
        """Whether it has come to an end, whatever the reason."""
        return self.state in _ENDED

    @property
    def failed(self) -> bool:
        """Whether it came to an end that nobody wanted."""
        return self.state in ("failed", "rejected")

    @property
    def out_of_memory(self) -> bool:
        """Whether the kernel has ended its server for want of memory."""
        return self.ended and self.exit_code == OUT_OF_MEMORY


@dataclass(frozen=True)
class Node:
    """One machine of a swarm.

    Attributes:
        name: Its host's name.
        host: Where it is reached.
        up: The managers hear of it.
        active: It takes new tasks.
        cpus: Its processors.
        memory_bytes: Its memory.
    """

    name: str
    host: str
    up: bool
    active: bool
    cpus: int
    memory_bytes: int

    @classmethod
    def of(cls, facts: Mapping[str, Any], daemon: str) -> Node:
        """Read what the Engine's API says of a node.

        Args:
            facts: What it says.
            daemon: Address of the manager that says it: of a swarm that advertises no other
                address than a loopback one, all nodes are there.
        """
        status = facts.get("Status") or {}
        host = str(status.get("Addr") or "")
        if host in _NOWHERE:  # as managers are told of by some releases
            host = str((facts.get("ManagerStatus") or {}).get("Addr") or "").rpartition(":")[0]
        host = host.strip("[]")
        if host in (*_NOWHERE, *_LOOPBACK):
            with contextlib.suppress(ValueError):
                remote = urlsplit(daemon)
                host = (remote.scheme in ("tcp", "ssh") and remote.hostname) or "127.0.0.1"
        description = facts.get("Description") or {}
        resources = description.get("Resources") or {}
        return cls(
            name=str(description.get("Hostname") or facts.get("ID")),
            host=host,
            up=status.get("State") == "ready",
            active=(facts.get("Spec") or {}).get("Availability") == "active",
            cpus=max(int(resources.get("NanoCPUs") or 0) // 1_000_000_000, 1),
            memory_bytes=int(resources.get("MemoryBytes") or 0),
        )


def list_tasks(client: Any, service: str) -> list[Task]:
    """Return the tasks of a service, those that have ended included, as far as Swarm keeps them."""
    return [Task.of(facts) for facts in client.api.tasks(filters={"service": service})]


def find_task(client: Any, task_id: str) -> Task | None:
    """Return a task; None where Swarm does not know it any more."""
    try:
        return Task.of(client.api.inspect_task(task_id))
    except Exception as error:
        if status_of(error) == HTTPStatus.NOT_FOUND:
            return None
        raise


def active_nodes(client: Any, daemon: str) -> list[Node]:
    """Return the nodes that take new tasks."""
    nodes = [Node.of(facts, daemon) for facts in client.api.nodes()]
    return [node for node in nodes if node.up and node.active]


def find_node(client: Any, node_id: str, daemon: str) -> Node | None:
    """Return a node; None where it has left."""
    try:
        return Node.of(client.api.inspect_node(node_id), daemon)
    except Exception as error:
        if status_of(error) == HTTPStatus.NOT_FOUND:
            return None
        raise


def address_of(task: Task, node: Node) -> TcpAddress:
    """Return where a task that serves is."""
    assert task.port is not None
    return TcpAddress(node.host, task.port)


def tail(client: Any, task_id: str) -> str:
    """Return the last lines of a task, on whatever node; "" where there are none to be had."""
    with contextlib.suppress(Exception):
        api = client.api
        answer = api.get(
            f"{api.base_url}/v{api.api_version}/tasks/{task_id}/logs",
            params={"stdout": 1, "stderr": 1, "tail": _TAIL_LINES},
            timeout=_LOG_S,
        )
        answer.raise_for_status()
        return tail_of(_joined(answer.content))
    return ""


def _joined(frames: bytes) -> bytes:
    """Return what is in the frames in which an Engine wraps a log.

    A frame is a byte that tells the stream, three zeros, the size as 4 bytes in network order, and
    the data (Docker Engine API, "Attach to a container", stream format).
    """
    text, place = b"", 0
    while place + 8 <= len(frames):
        (size,) = struct.unpack_from(">xxxxL", frames, place)
        text += frames[place + 8 : place + 8 + size]
        place += 8 + size
    return text


def status_of(error: BaseException) -> int | None:
    """Return the status with which the daemon refused; None where it did not answer."""
    status: int | None = getattr(getattr(error, "response", None), "status_code", None)
    return status
