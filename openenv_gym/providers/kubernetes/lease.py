"""How others can tell that the owner of a set is gone, where its whole machine is.

On its own machine everybody can look whether the owner runs. Others see the set only: so it says
until when it may be taken for used, and the owner moves that on while it lives. Times are those of
the clocks of owner and onlooker, which may differ by as much as a lease outlasts its renewal.
"""

from __future__ import annotations

import contextlib
import datetime
import logging
import threading
from typing import Any

from openenv_gym import errors
from openenv_gym.providers.kubernetes.cluster import Cluster


__all__ = ["LEASE", "Lease", "lease_text", "lease_until"]

LEASE = "openenv.lease"
"""Annotation of a StatefulSet: until when it is in use, as UTC in ISO 8601."""

VALID_S = 1800.0
RENEW_S = 300.0
_AGAIN_S = 30.0  # after a renewal that failed

_log = logging.getLogger("openenv_gym")


class Lease:
    """The lease of one set, renewed by a thread for as long as it is held.

    Args:
        cluster: Where the set is.
        name: Its name.
    """

    def __init__(self, cluster: Cluster, name: str) -> None:
        self._cluster = cluster
        self._name = name
        self._end = threading.Event()
        threading.Thread(target=self._run, name="openenv-lease", daemon=True).start()

    def end(self) -> None:
        """Renew it no more."""
        self._end.set()

    def _run(self) -> None:
        wait_s = RENEW_S
        while not self._end.wait(wait_s):
            try:
                self._cluster.patch(
                    "StatefulSet",
                    self._name,
                    {"metadata": {"annotations": {LEASE: lease_text()}}},
                )
                wait_s = RENEW_S
            except errors.OpenEnvGymError as error:
                if not self._end.is_set():
                    _log.warning("Cannot renew the lease of %s: %s", self._name, error)
                wait_s = min(_AGAIN_S, RENEW_S)


def lease_text() -> str:
    """Return what a lease says that is renewed now."""
    until = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=VALID_S)
    return until.isoformat(timespec="seconds")


def lease_until(made: dict[str, Any]) -> datetime.datetime | None:
    """Return until when a set is in use; None where it does not say."""
    text = str((made["metadata"].get("annotations") or {}).get(LEASE, ""))
    with contextlib.suppress(ValueError):
        until = datetime.datetime.fromisoformat(text)
        return until if until.tzinfo is not None else None
    return None
