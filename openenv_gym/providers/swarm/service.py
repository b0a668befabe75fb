"""A service of this process: made for its first server, scaled, and removed with its last one."""

from __future__ import annotations

import os
import secrets
import threading
import time
import uuid
from http import HTTPStatus
from typing import Any

from openenv_gym.providers.docker.daemon import daemon_address, translated
from openenv_gym.providers.guardian import guardian
from openenv_gym.providers.swarm.spec import Plan
from openenv_gym.providers.swarm.tasks import Task, list_tasks, status_of


__all__ = ["Service", "join", "remove_service"]

_TRIES = 20  # to remove what is still used or still made, 0.1 s apart

_lock = threading.RLock()  # reentrant: the garbage collector may stop a server in any line
_services: dict[Plan, Service] = {}


class Service:
    """One service with its secret. Both have the same name, which nothing else has.

    Each server of this process that is of its kind has a seat; so many tasks are meant to run. Who
    has a seat takes a task, which nobody else gets before it is left.

    Args:
        client: Client of the daemon.
        plan: What its tasks are.

    Attributes:
        plan: As above.
        name: Its name.
        token: Credential for all its servers.
        thing: What the guardian calls it.
    """

    def __init__(self, client: Any, plan: Plan) -> None:
        self.plan = plan
        self.name = f"openenv-{uuid.uuid4().hex}"
        self.token = secrets.token_urlsafe(32)
        self.thing = f"service:{self.name}@{daemon_address()}"
        self.seats = 0
        self._client = client
        self._owner_pid = os.getpid()
        self._lock = threading.RLock()
        self._replicas = 0
        self._taken: set[str] = set()
        self._used: set[str] = set()
        self._spoilt: set[str] = set()
        self._removed = False

    def ensure(self, expected: int = 1) -> None:
        """Make it, or scale it up, so that there is a task for each seat.

        Args:
            expected: How many seats there will be soon.

        Raises:
            ServerStartError: The manager refuses.
            ProviderUnavailableError: It does not answer any more.
        """
        with self._lock, translated(f"start a service of {self.plan.image}", self.plan.image):
            if self._replicas == 0:
                self._create(max(self.seats, expected))
            # Those that are spoilt stay until the end: Swarm lets nobody choose which task ends.
            elif self.seats + len(self._spoilt) > self._replicas:
                self._scale(self.seats + len(self._spoilt))

    def _create(self, replicas: int) -> None:
        api, labels = self._client.api, self.plan.labels()
        try:
            secret = api.create_secret(self.name, self.token.encode(), labels=labels)
            api.create_service(
                self.plan.task({"id": secret["ID"], "name": self.name}),
                name=self.name,
                labels=labels,
                mode={"Replicated": {"Replicas": replicas}},
                endpoint_spec=self.plan.endpoint(),
                update_config=self.plan.update(),
            )
        except BaseException:
            # Others have a seat as well, and make it anew: half of it must not be in their way.
            remove_service(self._client, self.name)
            raise
        self._replicas = replicas

    def _scale(self, replicas: int) -> None:
        api = self._client.api
        for again in range(_TRIES):
            facts = api.inspect_service(self.name)
            # As it is stored: where defaults were filled in, it would be another one, and Swarm
            # would replace all tasks.
            spec = facts["Spec"]
            try:
                api.update_service(
                    self.name,
                    facts["Version"]["Index"],
                    name=self.name,
                    labels=spec["Labels"],
                    task_template=spec["TaskTemplate"],
                    mode={"Replicated": {"Replicas": replicas}},
                    endpoint_spec=spec["EndpointSpec"],
                    update_config=spec["UpdateConfig"],
                )
            except Exception as error:
                # Somebody else has changed it meanwhile, an update that rolls, for instance.
                if "out of sequence" not in str(error) or again == _TRIES - 1:
                    raise
                time.sleep(0.1)
            else:
                self._replicas = replicas
                return

    # -- tasks --------------------------------------------------------------------------------

    def tasks(self) -> list[Task]:
        """Return its tasks, those that have ended included, as far as Swarm keeps them."""
        return list_tasks(self._client, self.name)

    def take(self, tasks: list[Task]) -> tuple[Task, bool] | None:
        """Take a task that serves and is nobody's: a fresh one, on a node with few, if there is.

        Args:
            tasks: Those of this service.

        Returns:
            The task, and whether somebody else had it before; None where all are taken.
        """
        with self._lock:
            free = [t for t in tasks if t.serves and t.id not in self._taken | self._spoilt]
            if not free:
                return None
            busy = [task.node_id for task in tasks if task.id in self._taken]
            task = min(free, key=lambda t: (t.id in self._used, busy.count(t.node_id), t.slot))
            self._taken.add(task.id)
            used = task.id in self._used
            self._used.add(task.id)
            return task, used

    def was_used(self, task: Task) -> bool:
        """Tell whether somebody has or had a task."""
        return task.id in self._used

    def give_back(self, task_id: str, *, spoilt: bool = False) -> None:
        """Let others have a task.

        Args:
            task_id: Which.
            spoilt: It does not answer: nobody gets it again.
        """
        with self._lock:
            self._taken.discard(task_id)
            if spoilt:
                self._spoilt.add(task_id)

    # -- end ----------------------------------------------------------------------------------

    def leave(self) -> None:
        """Give a seat up; the last one takes the service along. Other threads may join again."""
        with _lock:
            self.seats -= 1
            if self.seats > 0:
                return
            if _services.get(self.plan) is self:
                del _services[self.plan]
        self.remove()

    def remove(self) -> bool:
        """Remove it with its secret; tell whether both are gone. Safe to repeat.

        Where that fails, the guardian does it at the end of this process.
        """
        if self._removed or os.getpid() != self._owner_pid:
            return True
        if remove_service(self._client, self.name):
            self._removed = True
            # Without a lock: whoever holds the guardian's may be collecting garbage, and want ours.
            guardian.forget(self.thing)
        return self._removed


def join(client: Any, plan: Plan, *, shared: bool) -> Service:
    """Take a seat in the service of a plan, which this makes known if there is none yet.

    Args:
        client: Client of the daemon.
        plan: What its tasks are.
        shared: Others may use the same service, and have a task after each other.
    """
    fresh: Service | None = None
    while True:
        with _lock:
            service = _services.get(plan) if shared else None
            if service is None and fresh is not None:
                service = fresh
                if shared:
                    _services[plan] = fresh
            if service is not None:
                service.seats += 1
                break
        fresh = Service(client, plan)
        # It has its name before it is made, and is watched from then on.
        guardian.watch(fresh.thing)
    if fresh is not None and fresh is not service:
        guardian.forget(fresh.thing)
    return service


def remove_service(client: Any, name: str) -> bool:
    """Remove a service and the secret of the same name; tell whether both are gone."""
    return all(
        _removed(remove, name) for remove in (client.api.remove_service, client.api.remove_secret)
    )


def _removed(remove: Any, name: str) -> bool:
    for _ in range(_TRIES):
        try:
            remove(name)
        except Exception as error:
            status = status_of(error)
            if status == HTTPStatus.NOT_FOUND:
                return True
            if status != HTTPStatus.BAD_REQUEST:  # which says that the service still uses it
                return False
            time.sleep(0.1)
        else:
            return True
    return False


def _after_fork() -> None:
    """In a forked child: what the parent has made is the parent's."""
    global _lock
    _lock = threading.RLock()
    _services.clear()


os.register_at_fork(after_in_child=_after_fork)
