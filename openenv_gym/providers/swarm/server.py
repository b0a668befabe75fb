"""One server: a task of a service, that nobody else of this process has."""

from __future__ import annotations

import contextlib
import http
import http.client
import os
import threading
import time
from typing import Any

from openenv_gym import errors
from openenv_gym.client import Address, TcpAddress
from openenv_gym.providers.base import GRACE_S, NEW_ONE
from openenv_gym.providers.docker.daemon import daemon_address, translated, watching
from openenv_gym.providers.swarm.service import Service
from openenv_gym.providers.swarm.tasks import Node, Task, find_node, find_task, tail


__all__ = ["SwarmServer"]

_START_S = 60.0
_NO_ROOM_S = 10.0  # so long no node may have room before that is an error
_AGAIN_S = 2.0  # so long a server that was used before may take to answer
_LOOK_S = 0.1
_HEALTH_S = 5.0
_FAILURES = 2  # of tasks that nobody has used: then the next one will fail, too


class SwarmServer:
    """A server in a task of Swarm.

    Args:
        client: Client of the daemon.
        service: The service, in which this takes a task; the seat is there already, and this
            leaves it.

    Attributes:
        address: Where it is: the port of this very task, on its node.
        token: Credential for it.
        task_name: What Swarm calls the task, with its node.

    Raises:
        ServerStartError: No task comes to serve.
        ServerOutOfMemoryError: It wants more memory than it may have.
    """

    def __init__(self, client: Any, service: Service) -> None:
        self.token: str | None = service.token
        self._client = client
        self._service = service
        self._owner_pid = os.getpid()
        # Reentrant: the garbage collector may run a finalizer, which stops, in any line of ours.
        self._lock = threading.RLock()
        self._task_id: str | None = None
        self._left = False
        self._daemon = daemon_address()
        try:
            with translated(f"start a task of {service.plan.image}", service.plan.image):
                self._start()
        except BaseException:
            self.stop()
            raise

    def _start(self) -> None:
        end_s = time.monotonic() + _START_S
        # What failed before is not about this one.
        known = {task.id for task in self._service.tasks() if task.ended}
        while True:
            task, used = self._take(known, end_s)
            node = self._node(task)
            self.task_name = f"{self._service.name}.{task.slot} on {node.name}"
            assert task.port is not None
            self.address: Address = TcpAddress(node.host, task.port)
            limit_s = min(end_s, time.monotonic() + _AGAIN_S) if used else end_s
            if self._answers(node.host, task.port, task, limit_s):
                return
            self._task_id = None
            self._service.give_back(task.id, spoilt=True)
            if time.monotonic() > end_s:
                raise self._failure(f"{self.task_name} does not answer", task)
            self._service.ensure()

    def _take(self, known: set[str], end_s: float) -> tuple[Task, bool]:
        """Wait for a task that serves, and take it."""
        begin_s = time.monotonic()
        while True:
            tasks = self._service.tasks()
            taken = self._service.take(tasks)
            if taken is not None:
                self._task_id = taken[0].id
                return taken
            failed = [
                task
                for task in tasks
                # One that served, and failed others meanwhile, says nothing about the next one.
                if task.failed and task.id not in known and not self._service.was_used(task)
            ]
            if len(failed) >= _FAILURES:
                raise self._failure("Its tasks end before they serve", failed[0])
            waiting = [task for task in tasks if task.state == "pending" and task.error]
            now_s = time.monotonic()
            if now_s > end_s or (waiting and now_s > begin_s + _NO_ROOM_S):
                about = [*waiting, *(task for task in tasks if not task.ended)]
                raise self._failure("No task came to serve", about[0] if about else None)
            time.sleep(_LOOK_S)

    def _node(self, task: Task) -> Node:
        node = find_node(self._client, task.node_id, self._daemon)
        if node is None:
            raise errors.ServerStartError(f"The node {task.node_id} has left the swarm.")
        return node

    def _answers(self, host: str, port: int, task: Task, end_s: float) -> bool:
        """Wait until the server itself answers; a task runs, for Swarm, before it does."""
        while True:
            with contextlib.suppress(OSError, http.client.HTTPException):
                left_s = max(min(end_s - time.monotonic(), _HEALTH_S), 0.1)
                connection = http.client.HTTPConnection(host, port, timeout=left_s)
                with contextlib.closing(connection):
                    connection.request("GET", "/health")
                    if connection.getresponse().status == http.HTTPStatus.OK:
                        return True
            now = find_task(self._client, task.id)
            if now is None or now.ended:
                raise self._failure("It ended before it was ready", now or task)
            if time.monotonic() > end_s:
                return False
            time.sleep(_LOOK_S / 2)

    def _failure(self, what: str, task: Task | None) -> errors.OpenEnvGymError:
        """Return the error that tells why no server could be started."""
        image = self._service.plan.image
        data: dict[str, Any] = {"image": image, "service": self._service.name}
        if task is None:
            return errors.ServerStartError(f"Swarm runs no task of {image}: {what}.", data=data)
        data |= {"log": tail(self._client, task.id), "exit_code": task.exit_code}
        if task.out_of_memory:
            return _out_of_memory(f"A task of {image}", data)
        place = ""
        if task.node_id and (node := find_node(self._client, task.node_id, self._daemon)):
            place = f" on {node.name}"
        reason = task.error or f"it is {task.state}"
        if "No such image" in reason:
            return errors.ImageNotFoundError(
                f"Swarm runs no task of {image}{place}: {reason}.",
                hint="Each node needs it: docker save IMAGE | docker -H NODE load, or a registry "
                "that all nodes reach (image=).",
                data=data,
            )
        hint = None
        if "no suitable node" in reason:
            hint = "Ask for less (resources=, constraints=), or add nodes."
        return errors.ServerStartError(
            f"Swarm runs no task of {image}{place}. {what}: {reason}.", hint=hint, data=data
        )

    # -- life ---------------------------------------------------------------------------------

    def why_lost(self) -> errors.ConnectionLostError | None:
        """Tell why the server is gone, with its last lines; None while it runs.

        One that drains still runs.
        """
        name = f"The task {self.task_name}"
        if self._left or self._task_id is None:
            return errors.ServerDiedError(f"{name} was left.", hint=NEW_ONE)
        try:
            client = watching(self._client)
            task = find_task(client, self._task_id)
            if task is not None and not task.ended:
                if task.wanted:
                    return None
                node = find_node(client, task.node_id, self._daemon)
                if node is not None and node.up:
                    return None
                return errors.ServerDiedError(f"{name} is lost: its node is down.", hint=NEW_ONE)
        except Exception:
            return None  # the manager is in trouble, which says nothing about the server
        if task is None:
            return errors.ServerDiedError(f"{name} is gone: somebody removed it.", hint=NEW_ONE)
        data = {"log": self.log_tail(), "exit_code": task.exit_code, "task": self.task_name}
        if task.out_of_memory:
            return _out_of_memory(name, data)
        how = f"ended ({task.error or task.state})"
        if not task.failed:
            how = "was stopped by Swarm: its node is drained, or its service updated or removed"
        return errors.ServerDiedError(f"{name} {how}.", hint=NEW_ONE, data=data)

    def log_tail(self) -> str:
        """Return the last lines that it wrote."""
        return tail(self._client, self._task_id) if self._task_id is not None else ""

    def stop(self, grace_s: float = GRACE_S) -> None:
        """Leave the task to others, and remove the service with its last server.

        At once, whatever `grace_s` says; tasks end by themselves. Where the removal fails, another
        call tries again, and the guardian at the end of this process.
        """
        if os.getpid() != self._owner_pid:
            return
        with self._lock:
            first, self._left = not self._left, True
        if not first:
            if self._service.seats <= 0:
                self._service.remove()
            return
        if self._task_id is not None:
            self._service.give_back(self._task_id)
        self._service.leave()


def _out_of_memory(name: str, data: dict[str, Any]) -> errors.ServerOutOfMemoryError:
    return errors.ServerOutOfMemoryError(
        f"{name} ran out of memory and was killed.",
        hint="Give it more: SwarmProvider(resources=Resources(memory_bytes=...)).",
        data=data,
    )
