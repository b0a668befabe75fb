"""How a client gets to a pod: straight to its address, or through the API server."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from enum import Enum

from openenv_gym import errors
from openenv_gym.client import Loss, TcpAddress, not_lost
from openenv_gym.providers.kubernetes.cluster import Cluster


__all__ = ["ForwardAddress", "PodAddress", "Reach", "answers"]

_TRY_S = 1.0
_NOTICE_S = 10.0  # so long a cluster may take to notice that a container has ended
_ASK_S = 0.2


class Reach(str, Enum):
    """How a server in a pod is reached."""

    ADDRESS = "address"
    """By the pod's address, which leads there in the cluster and wherever its network is routed."""
    FORWARD = "forward"
    """Through the API server, which passes the bytes on (``kubectl port-forward``)."""


class PodAddress(TcpAddress):
    """A pod by its address, which is its own for as long as it lives."""

    def dial(self, timeout_s: float, why_lost: Loss = not_lost) -> socket.socket:
        """Connect; see `Address`."""
        # To an address that nobody has any more, connecting takes as long as it may.
        if (lost := why_lost()) is not None:
            raise lost
        try:
            return super().dial(min(timeout_s, max(_TRY_S, timeout_s / 4)), why_lost)
        except errors.ServerUnreachableError as error:
            if isinstance(error.__cause__, ConnectionRefusedError):
                # It answered once, so its process has ended.
                end_s = time.monotonic() + min(timeout_s, _NOTICE_S)
                while time.monotonic() < end_s:
                    time.sleep(_ASK_S)
                    if (lost := why_lost()) is not None:
                        raise lost from error
            raise


class ForwardAddress:
    """A pod that is reached through the API server.

    Args:
        cluster: The cluster.
        pod: Name of the pod.
        port: Port of the server there.
    """

    def __init__(self, cluster: Cluster, pod: str, port: int) -> None:
        self._cluster = cluster
        self._pod = pod
        self._port = port

    @property
    def uri(self) -> str:
        """URI of the handshake."""
        return f"ws://localhost:{self._port}/ws"

    def dial(self, timeout_s: float, why_lost: Loss = not_lost) -> socket.socket:
        """Open a connection to the API server; see `Address`."""
        if (lost := why_lost()) is not None:
            raise lost
        try:
            forward = self._cluster.forward(self._pod, self._port, timeout_s)
        except errors.OpenEnvGymError as error:
            if (lost := why_lost()) is not None:
                raise lost from error
            raise errors.ServerUnreachableError(
                f"No server answers at {self}: {error.message}"
            ) from error
        # The client wraps its end of a pair of sockets; we want the plain thing.
        wrapped = forward.socket(self._port)
        with contextlib.closing(wrapped):
            return socket.socket(
                socket.AF_UNIX, socket.SOCK_STREAM, fileno=os.dup(wrapped.fileno())
            )

    def __str__(self) -> str:
        return f"kubernetes:{self._cluster.namespace}/{self._pod}"


def answers(address: TcpAddress) -> bool:
    """Tell whether an address leads somewhere from here."""
    try:
        socket.create_connection((address.host, address.port), _TRY_S).close()
    except OSError:
        return False
    return True
