"""What the status of a pod says: whether its server is ready, why it is not, how it ended."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from openenv_gym import errors


__all__ = ["Incarnation", "Lost", "loss_of", "ready", "refuse_start", "trouble_of"]

_KILLED = 128 + 9  # exit code of what SIGKILL ended
_NO_IMAGE = ("ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName")


@dataclass(frozen=True)
class Incarnation:
    """One life of a server: a later pod has its name, a later container its pod.

    Attributes:
        pod: Name of the pod.
        uid: Which pod of this name.
        container: Id of the container.
        address: Address of the pod.
        node: Where it runs.
    """

    pod: str
    uid: str
    container: str
    address: str
    node: str


@dataclass(frozen=True)
class Lost:
    """How an incarnation ended.

    Attributes:
        text: In words.
        out_of_memory: It wanted too much.
        exit_code: Of its first process, where that is known.
        previous: Its log is that of the container before the one that is there now.
        readable: Its log can still be had.
    """

    text: str
    out_of_memory: bool = False
    exit_code: int | None = None
    previous: bool = False
    readable: bool = True


def ready(pod: dict[str, Any]) -> Incarnation | None:
    """Return the incarnation that takes clients; None where there is none yet."""
    status = pod.get("status", {})
    conditions = {each["type"]: each["status"] for each in status.get("conditions") or ()}
    container = _container(pod)
    if (
        conditions.get("Ready") != "True"
        or "deletionTimestamp" in pod["metadata"]
        or not status.get("podIP")
        or not container.get("containerID")
        or container.get("restartCount")
    ):
        return None
    return Incarnation(
        pod=pod["metadata"]["name"],
        uid=pod["metadata"]["uid"],
        container=container["containerID"],
        address=status["podIP"],
        node=pod["spec"].get("nodeName", ""),
    )


def loss_of(pod: dict[str, Any] | None, one: Incarnation) -> Lost | None:
    """Tell how an incarnation ended; None while it runs.

    Args:
        pod: The pod that has its name now.
        one: The incarnation.
    """
    if pod is None:
        return Lost("was deleted", readable=False)
    if pod["metadata"]["uid"] != one.uid:
        return Lost("was deleted, and another pod has its name", readable=False)
    status = pod.get("status", {})
    if status.get("phase") == "Failed" and status.get("reason"):
        # Evicted: too much in /tmp or in the log, or a node that runs out of something.
        said = str(status.get("message") or "").strip().rstrip(".")
        return Lost(f"was ended by its node ({status['reason']}): {said}")
    container = _container(pod)
    ended = (container.get("state") or {}).get("terminated")
    if ended and ended.get("containerID") in (None, "", one.container):
        found = _ending(ended, previous=False)
        if "deletionTimestamp" in pod["metadata"] and not found.out_of_memory:
            return replace(found, text=f"was deleted, and {found.text}")
        return found
    if container.get("containerID") not in (None, "", one.container):
        ended = (container.get("lastState") or {}).get("terminated") or {}
        return _ending(ended, previous=True)
    return None


def refuse_start(pod: dict[str, Any], image: str) -> errors.OpenEnvGymError | Lost | None:
    """Tell why a pod will not take clients however long one waits; None where it may.

    Args:
        pod: The pod.
        image: Its image.
    """
    status = pod.get("status", {})
    if status.get("phase") == "Failed":
        return Lost(f"failed ({status.get('reason', 'no reason given')})")
    container = _container(pod)
    state = container.get("state") or {}
    waiting = state.get("waiting") or {}
    if waiting.get("reason") in _NO_IMAGE:
        said = str(waiting.get("message") or waiting["reason"]).strip().rstrip(".")
        return errors.ImageNotFoundError(
            f"The node has no image {image}, and cannot pull it: {said}.",
            hint="Push it to a registry of the cluster and name it with image=, or load it there.",
            data={"image": image, "reason": waiting["reason"]},
        )
    if ended := state.get("terminated"):
        return _ending(ended, previous=False)
    if ended := (container.get("lastState") or {}).get("terminated"):
        return _ending(ended, previous=True)
    return None


def trouble_of(pod: dict[str, Any] | None) -> str:
    """Say why a pod is not ready yet, as far as its status tells."""
    if pod is None:
        return "no pod was made"
    status = pod.get("status", {})
    waiting = (_container(pod).get("state") or {}).get("waiting") or {}
    if waiting.get("message"):
        return f"{waiting.get('reason')}: {waiting['message']}"
    for condition in status.get("conditions") or ():
        if condition["status"] == "False" and condition.get("message"):
            return f"{condition.get('reason')}: {condition['message']}"
    if "deletionTimestamp" in pod["metadata"]:
        return "the pod before it has not ended"
    return str(waiting.get("reason") or status.get("phase") or "nothing is known of it")


def _container(pod: dict[str, Any]) -> dict[str, Any]:
    statuses = pod.get("status", {}).get("containerStatuses") or [{}]
    container: dict[str, Any] = statuses[0]
    return container


def _ending(ended: dict[str, Any], *, previous: bool) -> Lost:
    code = ended.get("exitCode")
    if ended.get("reason") == "OOMKilled":
        return Lost("ran out of memory and was killed", True, code, previous)
    if code == _KILLED:
        return Lost("was killed", False, code, previous)
    how = "ended" if code is None else f"ended with code {code}"
    return Lost(how, False, code, previous)
