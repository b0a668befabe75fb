"""The provider that nobody has named: containers where they can be had, else a local process."""

from __future__ import annotations

import logging

from openenv_gym import errors
from openenv_gym.providers.base import Provider, RunningServer, ServerTarget


__all__ = ["AutoProvider"]

_log = logging.getLogger("openenv_gym")
_said: set[str] = set()


class AutoProvider:
    """Takes Docker where a daemon answers and has the image; otherwise a local process.

    It builds nothing: an image that is missing or old is named, with the command that builds it.
    What it chose is said once for each environment package.
    """

    name = "auto"
    isolates = False  # `start` itself sees to it that untrusted code gets a container

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


def _docker_for(target: ServerTarget) -> tuple[Provider | None, str]:
    """Return the Docker provider where it could start at once, or None and the reason."""
    from openenv_gym.providers.docker.daemon import connect_daemon, may_answer

    if not may_answer():
        return None, "no Docker daemon is here."
    try:
        client = connect_daemon()
        from openenv_gym.providers.docker.images import ensure_image

        ensure_image(client, target.package, image=target.image, build="never")
    except errors.ProviderError as error:
        return None, str(error)
    from openenv_gym.providers.docker import DockerProvider

    return DockerProvider(build="never"), ""


def _say_once(text: str) -> None:
    if text not in _said:
        _said.add(text)
        _log.warning(text)
