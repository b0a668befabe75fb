"""The provider that nobody has named: containers where they can be had, else a local process."""

from __future__ import annotations

import logging
import math
import time

from openenv_gym import errors
from openenv_gym.providers.base import Provider, RunningServer, ServerTarget
from openenv_gym.providers.inventory import Item


__all__ = ["AutoProvider"]

_log = logging.getLogger("openenv_gym")
_said: set[str] = set()
_unusable: dict[str, tuple[float, str]] = {}  # daemon -> when it was asked, what was wrong
_ASK_AGAIN_S = 30.0


class AutoProvider:
    """Takes Docker where a daemon answers and has the image; otherwise a local process.

    It builds nothing: an image that is missing or old is named, with the command that builds it.
    What it chose is said once for each environment package.
    """

    name = "auto"
    isolates = False  # `start` itself sees to it that untrusted code gets a container
    separates_sessions = True  # likewise: the container does

    def start(self, target: ServerTarget) -> RunningServer:
        """Start a server; see `Provider`.

        Raises:
            IsolationError: The environment runs untrusted code, and there is no container for it.
        """
        provider, why_not = _docker_for(target)
        if provider is not None:
            _say_once(f"{target.package} runs in a container of its own, without a network.")
            return provider.start(target)
        if target.untrusted:
            raise errors.IsolationError(
                f"{target.package} runs code that nobody vouches for, and no container can be had: "
                f"{why_not}",
                hint='provider="process" with allow_unisolated=True runs it without protection.',
            )
        from openenv_gym.providers.process import ProcessProvider

        _say_once(
            f"{target.package} runs in a local process, and nothing isolates it from this machine "
            f'(provider="process" says that you know). No container: {why_not}'
        )
        return ProcessProvider().start(target)

    def inventory(self) -> list[Item]:
        """Return nothing: what it started, others know of."""
        return []

    def remove(self, item: Item) -> None:
        """Do nothing: there is none."""


def _docker_for(target: ServerTarget) -> tuple[Provider | None, str]:
    """Return the Docker provider where it could start at once, or None and the reason."""
    from openenv_gym.providers.docker.daemon import (
        connect_daemon,
        daemon_address,
        may_answer,
        translated,
    )

    try:
        if not may_answer():
            return None, "no Docker daemon is here."
        address = daemon_address()
    except errors.ProviderError as error:
        return None, str(error)
    asked_s, reason = _unusable.get(address, (-math.inf, ""))
    if time.monotonic() < asked_s + _ASK_AGAIN_S:
        return None, reason
    try:
        client = connect_daemon()
    except errors.ProviderError as error:
        # One that does not answer takes its time, and would take it again for each environment.
        _unusable[address] = time.monotonic(), str(error)
        return None, str(error)
    from openenv_gym.providers.docker.images import ensure_image

    try:
        with translated("look for images", target.image or target.package):
            ensure_image(client, target.package, image=target.image, build="never")
    except errors.OpenEnvGymError as error:
        return None, str(error)
    from openenv_gym.providers.docker import DockerProvider

    return DockerProvider(build="never"), ""


def _say_once(text: str) -> None:
    if text not in _said:
        _said.add(text)
        _log.warning(text)
